package aws

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// managedTarget is the value of --to for a managed node group: a release, a Kubernetes version or a version of the user's
// launch template. The zero value is the default target.
type managedTarget struct{ release, kubernetes, template string }

var kubernetesPattern = cloud.CompileLater(`^v?([0-9]+\.[0-9]+)$`)

// parseManagedTarget parses --to for a managed node group: 1.33.4-20261101, 1.34, or a template version as in parseTarget. For
// any other text it returns a refusedError.
func parseManagedTarget(text string) (managedTarget, error) {
	if found := kubernetesPattern().FindStringSubmatch(text); found != nil {
		return managedTarget{kubernetes: found[1]}, nil
	}
	if releasePattern().MatchString(text) {
		return managedTarget{release: text}, nil
	}
	wish, err := parseTarget(text)
	switch {
	case err != nil:
		return managedTarget{}, newAbsentError("--to=%s is neither a release, nor a Kubernetes version, nor a launch template version: use a value such as 1.33.4-20261101, 1.34, 7, $Latest or $Default", text)
	case wish.image != "":
		return managedTarget{}, newRefusedError("EKS accepts no AMI, but --to is %s: pass a release such as 1.33.4-20261101, or a version of its launch template with that AMI", wish.image)
	}
	return managedTarget{template: wish.version}, nil
}

// managedPointer is the JSON of Revision.Spec of a managed node group. It contains everything that EKS needs to move the group
// to a revision. If the template has its own AMI, Kubernetes version and release are empty.
type managedPointer struct {
	Cluster    string `json:"cluster"`
	Nodegroup  string `json:"nodegroup"`
	Kubernetes string `json:"version,omitempty"`
	Release    string `json:"releaseVersion,omitempty"`
	// Template is the ID of the user's launch template.
	Template string `json:"launchTemplate,omitempty"`
	Version  int64  `json:"launchTemplateVersion,omitempty"`
}

// managedRevision describes the nodes of a managed node group.
type managedRevision struct {
	managedPointer
	// byTemplate is true if the template's version identifies the revision. Otherwise the release identifies it.
	byTemplate   bool
	templateName string
	// kubelet is the kubelet's version. image is the AMI. Each is "" if it is not known.
	kubelet, image string
}

// ownRevision returns the node group's revision as EKS reports it. With a custom AMI the template's version identifies the
// revision. Its release stays empty, because EKS reports only an AMI ID as release.
func ownRevision(g *kt.Nodegroup) managedRevision {
	r := managedRevision{
		managedPointer: managedPointer{Cluster: sdk.ToString(g.ClusterName), Nodegroup: sdk.ToString(g.NodegroupName)},
		byTemplate:     g.AmiType == kt.AMITypesCustom,
	}
	if !r.byTemplate {
		r.Kubernetes, r.Release = sdk.ToString(g.Version), sdk.ToString(g.ReleaseVersion)
		r.kubelet = kubeletOfRelease(g.AmiType, r.Release, r.Kubernetes)
	}
	if t := g.LaunchTemplate; t != nil {
		r.Template, r.templateName = sdk.ToString(t.Id), sdk.ToString(t.Name)
		r.Version, _ = strconv.ParseInt(sdk.ToString(t.Version), 10, 64) // 0 if EKS reports no number
	}
	return r
}

// withRelease returns the revision with another release. The template and its version stay the
// same.
func (r managedRevision) withRelease(t kt.AMITypes, kubernetes, release, image string) managedRevision {
	r.Kubernetes, r.Release, r.image = kubernetes, release, image
	r.kubelet = kubeletOfRelease(t, release, kubernetes)
	return r
}

// revisionID returns the revision's ID: "release/1.33.4-20261101", or "lt-0abc:7" if the template's version identifies the
// revision. Two revisions with the same ID have the same nodes: nodes of one revision are current for the other.
func (r *managedRevision) revisionID() string {
	if r.byTemplate {
		return fmt.Sprintf("%s:%d", r.Template, r.Version)
	}
	return "release/" + r.Release
}

// describeRevision converts the revision for package upgrade. The name is "release:1.33.4-20261101" or "workers:7".
func (r *managedRevision) describeRevision() nodegroup.Revision {
	spec, _ := json.Marshal(r.managedPointer) // marshalling strings and a number cannot fail
	name := "release:" + r.Release
	if r.byTemplate {
		name = fmt.Sprintf("%s:%d", cmp.Or(r.templateName, r.Template), r.Version)
	}
	return nodegroup.Revision{ID: r.revisionID(), Name: name, Image: r.image, Kubernetes: r.kubelet, Spec: string(spec)}
}

// checkSupportedBy returns a refusedError if the node group does not support this kind of target.
func (t managedTarget) checkSupportedBy(g *kt.Nodegroup) error {
	switch custom := g.AmiType == kt.AMITypesCustom; {
	case custom && (t.release != "" || t.kubernetes != ""):
		return refusedError("its launch template sets the AMI, but --to is a release: create a template version with the new AMI, and pass it with --to")
	case t.template != "" && g.LaunchTemplate == nil:
		return refusedError("it was created without a launch template, but --to is a template version: pass a release such as 1.33.4-20261101, or a Kubernetes version such as 1.34")
	}
	return nil
}

// checkTemplateImage returns a refusedError if EKS does not accept the template version for the AMI type. A custom AMI type
// needs a version with an AMI. Every other AMI type needs a version without an AMI.
func (r *managedRevision) checkTemplateImage(t kt.AMITypes) error {
	switch custom := t == kt.AMITypesCustom; {
	case custom && r.image == "":
		return newRefusedError("version %d of launch template %s has no AMI, and EKS chooses none for this node group: create a version with an AMI, and pass it with --to", r.Version, r.Template)
	case !custom && r.image != "":
		return newRefusedError("version %d of launch template %s has AMI %s, but EKS chooses the AMI of this node group: create a version without an AMI, and pass it with --to", r.Version, r.Template, r.image)
	}
	return nil
}

// checkVersionStep returns a refusedError for a move that EKS refuses. EKS does not move to an older release (EKS E11) or to a
// newer Kubernetes version than the control plane's (EKS E10). It also does not move to a Kubernetes version between the node
// group's and the control plane's. Nodes may be three versions behind, and EKS moves them to the control plane's version in one
// step (aws-eks-best-practices#476). control is the control plane's version. It is used only if the Kubernetes version changes.
func checkVersionStep(t kt.AMITypes, from, to *managedRevision, control string) error {
	switch minors := compareVersions(to.Kubernetes, from.Kubernetes); {
	case minors < 0, minors == 0 && compareReleases(t, to.Release, from.Release) < 0:
		return newRefusedError("it has release %s, and EKS cannot go back to %s: pass a newer release with --to", from.Release, to.Release)
	case minors == 0:
		return nil
	}
	switch n := compareVersions(to.Kubernetes, control); {
	case n > 0:
		return newRefusedError("release %s is for Kubernetes %s, but the control plane has %s: upgrade the control plane first with %s", to.Release, to.Kubernetes, control,
			"aws eks update-cluster-version "+shell.Option("--name", to.Cluster)+" "+shell.Option("--kubernetes-version", to.Kubernetes))
	case n < 0:
		return newRefusedError("EKS can upgrade it to Kubernetes %s, the control plane's version, or to a newer release of %s, but release %s is for %s: pass a release of one of these versions with --to",
			control, from.Kubernetes, to.Release, to.Kubernetes)
	}
	return nil
}
