package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// managedGroups reads and changes EKS managed node groups.
type managedGroups struct {
	aws        *Provider // sends the requests to EC2 and Auto Scaling
	eks        *eks.Client
	parameters *parameterClient
	cache      managedCache
}

// inspectNodegroup reads everything else about the managed node group of an Auto Scaling group, and describes it. For a listing
// it does not read the update history. If a read fails, the returned group contains only what the Auto Scaling group itself
// shows.
func (m *managedGroups) inspectNodegroup(ctx context.Context, asg *at.AutoScalingGroup, to string, listing bool) (nodegroup.Group, error) {
	name, _ := managedNameOf(asg)
	m.cache.autoscaling.add(map[string]string{name.nodegroup: sdk.ToString(asg.AutoScalingGroupName)})
	group := describeNodegroup(asg, name)
	f, err := m.readNodegroupFacts(ctx, asg, to, listing)
	if err != nil {
		return group, err
	}
	addNodegroupFacts(&group, asg, &f)
	m.aws.rememberInstances(asg, &group)
	return group, nil
}

// readNodegroupFacts reads everything that is needed to judge the node group. If the node group cannot move to the target,
// problem is the reason and the current revision counts as wanted.
func (m *managedGroups) readNodegroupFacts(ctx context.Context, asg *at.AutoScalingGroup, to string, listing bool) (nodegroupFacts, error) {
	var f nodegroupFacts
	name, _ := managedNameOf(asg)
	out, err := m.eks.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: sdk.String(name.cluster), NodegroupName: sdk.String(name.nodegroup)})
	if err != nil {
		return f, explainError(fmt.Sprintf("reading node group %q of cluster %q", name.nodegroup, name.cluster), err)
	}
	if out.Nodegroup == nil {
		return f, fatalError("reading node group %q of cluster %q: EKS does not describe it", name.nodegroup, name.cluster)
	}
	f.nodegroup = *out.Nodegroup
	m.aws.arns.add(map[string]string{name.nodegroup: sdk.ToString(out.Nodegroup.NodegroupArn)})
	if !listing || f.nodegroup.Status == kt.NodegroupStatusUpdating {
		err = m.readNewestUpdate(ctx, name, &f)
		answer, answered := errors.AsType[smithy.APIError](err)
		switch isIdle := f.nodegroup.Status == kt.NodegroupStatusActive; {
		case isIdle && answered && isDeniedCode(answer.ErrorCode()): // no update is under way
			f.unread = unknownBecause("how its last update ended is not known", err)
		case err != nil:
			return f, err
		}
	}
	if err = m.readRevisions(ctx, to, &f); err != nil {
		return f, err
	}
	if err = m.readImageFacts(ctx, asg, &f); err != nil {
		return f, err
	}
	if lacksInstances(asg) {
		f.failure, err = m.aws.readNewestLaunchFailure(ctx, sdk.ToString(asg.AutoScalingGroupName))
	}
	return f, err
}

// readNewestUpdate finds the newest update of the node group. A running update is always the newest, because EKS carries out
// one update at a time. If no update is running, readNewestUpdate reads all updates, because EKS does not document the order of
// its list.
func (m *managedGroups) readNewestUpdate(ctx context.Context, name managedName, f *nodegroupFacts) error {
	var err error
	for _, running := range m.cache.listUpdates(name, false) {
		if f.update, err = m.readUpdate(ctx, name, sdk.ToString(running.Id)); err != nil {
			return err
		}
	}
	if f.update == nil || hasEnded(*f.update) {
		if f.update, err = m.findNewestUpdate(ctx, name); err != nil {
			f.update = m.cache.newestEndedUpdate(name) // so that a running update is followed to its end
		}
	}
	if err == nil && f.update != nil {
		f.force = m.cache.forced.get(updateKey{name, sdk.ToString(f.update.Id)})
	}
	return err
}

// readUpdate reads an update. It returns nil if EKS does not know the update any more, or not yet.
func (m *managedGroups) readUpdate(ctx context.Context, name managedName, id string) (*kt.Update, error) {
	out, err := m.eks.DescribeUpdate(ctx, &eks.DescribeUpdateInput{
		Name: sdk.String(name.cluster), NodegroupName: sdk.String(name.nodegroup), UpdateId: sdk.String(id),
	})
	if _, unknown := errors.AsType[*kt.ResourceNotFoundException](err); unknown {
		m.cache.updates.remove(updateKey{name, id})
		return nil, nil
	}
	if err != nil {
		return nil, explainError(fmt.Sprintf("reading update %s of node group %q of cluster %q", id, name.nodegroup, name.cluster), err)
	}
	if out.Update == nil {
		return nil, fatalError("reading update %s of node group %q: EKS does not describe it", id, name.nodegroup)
	}
	m.cache.rememberUpdate(name, out.Update)
	return out.Update, nil
}

func (m *managedGroups) findNewestUpdate(ctx context.Context, name managedName) (*kt.Update, error) {
	var ids []string
	pages := eks.NewListUpdatesPaginator(m.eks, &eks.ListUpdatesInput{Name: sdk.String(name.cluster), NodegroupName: sdk.String(name.nodegroup)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explainError(fmt.Sprintf("reading the updates of node group %q of cluster %q", name.nodegroup, name.cluster), err)
		}
		ids = append(ids, out.UpdateIds...)
	}
	unknown := m.cache.updatesToRead(name, ids)
	read := make([]*kt.Update, len(unknown))
	err := forEachParallel(len(unknown), func(i int) (err error) {
		read[i], err = m.readUpdate(ctx, name, unknown[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, u := range read {
		if u != nil && !hasEnded(*u) {
			return u, nil
		}
	}
	return m.cache.newestEndedUpdate(name), nil
}

// readRevisions sets the revision that the node group has, and the revision that it should have.
func (m *managedGroups) readRevisions(ctx context.Context, to string, f *nodegroupFacts) error {
	f.own = ownRevision(&f.nodegroup)
	f.wanted = f.own
	wish, err := parseManagedTarget(to)
	if err == nil {
		err = wish.checkSupportedBy(&f.nodegroup)
	}
	if err == nil {
		f.wanted, err = m.wantedRevision(ctx, wish, f)
	}
	if no, refused := errors.AsType[refusedError](err); refused {
		f.problem, f.absent, f.unverified, f.wanted = string(no), to != "" && isAbsent(err), "", f.own
		return nil
	}
	return err
}

// wantedRevision returns the revision that the target asks for.
//
// Without a target, if EKS chooses the AMI, wantedRevision returns the newest release of the group's own Kubernetes version, as
// EKS itself does. For a newer Kubernetes version the user must pass --to. The version of the user's template stays the same.
//
// Without a target, if the template has its own AMI, wantedRevision returns the group's own template version. A newer version
// may be an experiment, and EKS does not use it without a request. So only nodes of other template versions are outdated.
func (m *managedGroups) wantedRevision(ctx context.Context, wish managedTarget, f *nodegroupFacts) (managedRevision, error) {
	amiType, own := f.nodegroup.AmiType, f.own
	switch {
	case wish.template != "" || own.byTemplate:
		return m.templateRevision(ctx, wish, f)
	case wish.release != "":
		return m.releaseRevision(ctx, f, kubernetesOfRelease(amiType, wish.release, own.Kubernetes), wish.release)
	case wish.kubernetes != "" && wish.kubernetes != own.Kubernetes:
		return m.releaseRevision(ctx, f, wish.kubernetes, "")
	default:
		return m.newestReleaseRevision(ctx, f, own.Kubernetes)
	}
}

// newestReleaseRevision returns the revision with the newest release of the Kubernetes version. If the group's own release is
// newer, or no other release is known, the revision has the group's own release.
func (m *managedGroups) newestReleaseRevision(ctx context.Context, f *nodegroupFacts, kubernetes string) (managedRevision, error) {
	r, err := m.readRelease(ctx, f.nodegroup.AmiType, kubernetes, "")
	newest, own := r.newest, f.own.Release
	if err == nil && (newest == "" || compareReleases(f.nodegroup.AmiType, newest, own) < 0) {
		newest = own
		r, err = m.readRelease(ctx, f.nodegroup.AmiType, kubernetes, own)
	}
	return f.own.withRelease(f.nodegroup.AmiType, kubernetes, newest, r.image), err
}

// releaseRevision returns the revision with a release. If release is "", it takes the newest release of the Kubernetes version.
// It returns a refusedError if the release does not exist, or if EKS would refuse to move the node group to it. Some older
// releases have no published parameters. Then EKS checks at the update whether the release exists.
func (m *managedGroups) releaseRevision(ctx context.Context, f *nodegroupFacts, kubernetes, release string) (managedRevision, error) {
	amiType := f.nodegroup.AmiType
	r, err := m.readRelease(ctx, amiType, kubernetes, release)
	unread := "AWS publishes no parameter for it, and EKS refuses the update if it does not exist"
	if answer, answered := errors.AsType[smithy.APIError](err); release != "" && answered && isDeniedCode(answer.ErrorCode()) {
		unread, err = err.Error(), nil
	}
	if err == nil {
		err = r.checkExists(amiType, kubernetes, release)
	}
	if err != nil {
		return managedRevision{}, err
	}
	if release != "" && release != f.own.Release && r.image == "" {
		f.unverified = fmt.Sprintf("whether release %s exists is unknown: %s", release, unread)
	}
	to := f.own.withRelease(amiType, kubernetes, cmp.Or(release, r.newest), r.image)
	control := ""
	if kubernetes != f.own.Kubernetes {
		if control, err = m.controlPlaneVersion(ctx, f.own.Cluster, kubernetes); err != nil {
			return to, err
		}
	}
	return to, checkVersionStep(amiType, &f.own, &to, control)
}

// templateRevision returns the revision with a version of the user's template. Without a target it is the node group's own
// version. If EKS chooses the AMI, the release stays the same.
func (m *managedGroups) templateRevision(ctx context.Context, wish managedTarget, f *nodegroupFacts) (managedRevision, error) {
	to := f.own
	to.byTemplate = true
	if to.Version == 0 { // EKS API, LaunchTemplateSpecification: the default is $Default
		wish.template = cmp.Or(wish.template, defaultVersion)
	}
	if wish.template != "" {
		named := launchSource{base: launch{template: to.Template, name: to.templateName, written: wish.template}}
		templates, err := m.aws.readTemplates(ctx, named.templatesByAlias(target{}))
		if err != nil {
			return to, err
		}
		if err := named.base.resolveVersion(templates); err != nil {
			return to, err
		}
		to.Version = named.base.version
	}
	key := versionKey{to.Template, to.Version}
	versions, err := m.aws.readVersions(ctx, []versionKey{key})
	if err == nil {
		versions, err = m.aws.resolveAliases(ctx, versions)
	}
	if err != nil {
		return to, err
	}
	to.templateName, to.image = cmp.Or(to.templateName, versions[key].name), versions[key].image
	if err := to.checkTemplateImage(f.nodegroup.AmiType); err != nil || f.own.byTemplate {
		return to, err
	}
	r, err := m.readRelease(ctx, f.nodegroup.AmiType, to.Kubernetes, to.Release)
	to.image = r.image
	return to, err
}

// publishedRelease contains what AWS publishes about a release.
type publishedRelease struct {
	// newest is the newest release of the Kubernetes version, "" if it is not known.
	newest string
	// image is the AMI of the requested release or, without a request, of the newest release; "" if it is not known. ofImage is
	// the release of this AMI, "" if it is not known. It may differ from the requested release, because a parameter's name
	// contains only the minor version and the date of a release.
	image, ofImage string
}

// checkExists returns an absentError if the release does not exist. If release is "", it returns an absentError if the
// Kubernetes version has no release.
func (r *publishedRelease) checkExists(t kt.AMITypes, kubernetes, release string) error {
	switch {
	case release == "" && r.newest == "":
		return newAbsentError("there is no release of Kubernetes %s for node groups with AMI type %s: pass a release such as 1.33.4-20261101 with --to", kubernetes, t)
	case release != "" && r.ofImage != "" && r.ofImage != release:
		_, date, _ := strings.Cut(release, "-")
		return newAbsentError("there is no release %s: the release of %s is %s", release, date, r.ofImage)
	case release != "" && r.image == "" && r.newest != "" && compareReleases(t, release, r.newest) > 0:
		return newAbsentError("there is no release %s: the newest one of Kubernetes %s is %s", release, kubernetes, r.newest)
	}
	return nil
}

// readRelease reads what AWS publishes about a release. If release is "", it reads about the newest release.
func (m *managedGroups) readRelease(ctx context.Context, amiType kt.AMITypes, kubernetes, release string) (publishedRelease, error) {
	series := imageSeriesOf(amiType)
	if !series.isKnown() || kubernetes == "" {
		return publishedRelease{}, nil
	}
	newestName, newestImage := series.newestParameters(kubernetes)
	names := []string{newestName, newestImage}
	exactImage, exactName := "", ""
	if release != "" {
		exactImage, exactName = series.releaseParameters(kubernetes, release)
		names = append(names, exactImage, exactName)
	}
	values, err := m.readParameters(ctx, names)
	r := publishedRelease{newest: values[newestName], image: values[newestImage], ofImage: values[newestName]}
	if release != "" && release != r.newest {
		r.image, r.ofImage = values[exactImage], values[exactName]
	}
	return r, err
}

// readParameters reads each public SSM parameter once. The value of a parameter that does not exist is empty.
func (m *managedGroups) readParameters(ctx context.Context, names []string) (map[string]string, error) {
	return m.cache.parameters.getOrFetch(names, func(unknown []string) (map[string]string, error) {
		found, err := m.parameters.getParameters(ctx, unknown)
		if err != nil {
			return nil, explainError("reading the releases of node groups", err)
		}
		read := map[string]string{}
		for _, name := range unknown {
			read[name] = found[name]
		}
		return read, nil
	})
}

// controlPlaneVersion returns the Kubernetes version of a cluster's control plane. It returns the cached version if that is not
// older than needed.
func (m *managedGroups) controlPlaneVersion(ctx context.Context, cluster, needed string) (string, error) {
	if known := m.cache.controlPlaneVersions.get(cluster); known != "" && compareVersions(known, needed) >= 0 {
		return known, nil
	}
	out, err := m.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(cluster)})
	if err != nil {
		return "", explainError(fmt.Sprintf("reading the version of cluster %q", cluster), err)
	}
	if out.Cluster == nil {
		return "", fatalError("reading the version of cluster %q: EKS does not describe it", cluster)
	}
	version := sdk.ToString(out.Cluster.Version)
	m.cache.controlPlaneVersions.add(map[string]string{cluster: version})
	return version, nil
}

// readImageFacts reads which AMIs the instances have, and describes these AMIs and the wanted AMI.
func (m *managedGroups) readImageFacts(ctx context.Context, asg *at.AutoScalingGroup, f *nodegroupFacts) error {
	var ids []string
	for _, i := range asg.Instances {
		if sdk.ToString(i.ImageId) == "" && instanceStateOf(i.LifecycleState) != nodegroup.InstanceLeaving {
			ids = append(ids, sdk.ToString(i.InstanceId))
		}
	}
	var err error
	if f.instanceImages, err = m.aws.readInstanceImages(ctx, ids); err != nil {
		return err
	}
	seen := []string{f.wanted.image}
	for _, ami := range f.instanceImages {
		seen = append(seen, ami)
	}
	f.images, err = m.aws.readImages(ctx, seen)
	f.unread = append(f.unread, unknownBecause(unknownKubernetes, err)...)
	if f.wanted.kubelet == "" {
		f.wanted.kubelet = f.images[f.wanted.image].kubernetes
	}
	return ctx.Err()
}
