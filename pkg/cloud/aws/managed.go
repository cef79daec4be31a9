package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// Tags that EKS puts on the Auto Scaling groups of its managed node groups.
const (
	tagNodegroup = "eks:nodegroup-name"
	tagCluster   = "eks:cluster-name"
)

// Labels that EKS sets on nodes, by which a node's revision is recognized (EKS E28, E29).
const (
	labelImage           = "eks.amazonaws.com/nodegroup-image"
	labelTemplate        = "eks.amazonaws.com/sourceLaunchTemplateId"
	labelTemplateVersion = "eks.amazonaws.com/sourceLaunchTemplateVersion"
)

// managedName identifies a managed node group.
type managedName struct{ cluster, nodegroup string }

// managedNameOf returns the managed node group to which the Auto Scaling group belongs. ok is false if there is none.
func managedNameOf(g *at.AutoScalingGroup) (name managedName, ok bool) {
	name = managedName{cluster: tagValue(g, tagCluster), nodegroup: tagValue(g, tagNodegroup)}
	return name, name.nodegroup != ""
}

// appendOptionsTo returns the command of the AWS CLI with the options that name the node group.
func (n managedName) appendOptionsTo(command string) string {
	return command + " " + shell.Option("--cluster-name", n.cluster) + " " + shell.Option("--nodegroup-name", n.nodegroup)
}

// describeNodegroup describes the node group with only the facts that its Auto Scaling group contains. Quiesce and Follows stay
// empty, because EKS itself manages the processes and the launch template.
func describeNodegroup(g *at.AutoScalingGroup, name managedName) nodegroup.Group {
	out := describeGroup(g)
	out.Name, out.Kind, out.Can.NameZone, out.Quiesce, out.Follows = name.nodegroup, "EKS managed node group", true, nil, ""
	out.Managed = &nodegroup.Managed{
		MaxUnavailable: nodegroup.Quantity{N: 1}, MaxSurge: nodegroup.Quantity{N: 2, PerZone: true}, SurgeCoversUnavailable: true, // EKS E05, E21
		ChangeWidth:  name.appendOptionsTo("aws eks update-nodegroup-config") + " --update-config maxUnavailable=NUMBER",
		DrainTimeout: 15 * time.Minute, Settle: time.Minute, // EKS E41, E44
		DrawsNodes: true, PollInterval: 5 * time.Second, // EKS E40; kubectl drain also repeats evictions after 5 s
	}
	return out
}

// nodegroupFacts contains what AWS reports about a managed node group besides its Auto Scaling group.
type nodegroupFacts struct {
	nodegroup   kt.Nodegroup
	own, wanted managedRevision
	// update is the newest update, nil if there is none. force is true if this Provider started the update with force. EKS does
	// not report the force of an update.
	update *kt.Update
	force  bool
	// instanceImages contains the AMI of each instance as EC2 reports it. images describes AMIs by ID. Each map may be
	// incomplete.
	instanceImages map[string]string
	images         map[string]image
	failure        nodegroup.LaunchFailure
	// problem is the reason why the group cannot move to the target, "" if it can. absent is true if the target does not exist.
	problem string
	absent  bool
	// unread becomes nodegroup.Group.Unread.
	unread []string
	// unverified is the reason why it is unknown whether the target exists, "" otherwise.
	unverified string
}

// addNodegroupFacts adds the facts to the group's description.
func addNodegroupFacts(out *nodegroup.Group, g *at.AutoScalingGroup, f *nodegroupFacts) {
	out.Pointed, out.Wanted, out.LaunchFailure = f.own.describeRevision(), f.wanted.describeRevision(), f.failure
	out.Unread = f.unread
	if f.unverified != "" {
		out.Unread = append(out.Unread, f.unverified)
	}
	addUpdateWidth(out.Managed, f.nodegroup.UpdateConfig)
	if out.Managed.TerminateFirst {
		out.Managed.AddFirst = addFirstCommand(g, out.Managed.MaxUnavailable)
	}
	if f.update != nil {
		out.Managed.Operation = describeOperation(f.update, &f.wanted, f.force)
	}
	if f.wanted.byTemplate { // EKS E29
		out.RequireLabels(map[string]string{labelTemplate: f.wanted.Template, labelTemplateVersion: strconv.FormatInt(f.wanted.Version, 10)})
	}
	out.Instances = describeInstances(g, f.judgeInstance)
	out.Refusal, out.AbsentTarget = f.refusalReason(g), f.absent
}

// refusalReason returns why the node group must not be upgraded, with the remedy; "" if it may be upgraded. While EKS is
// already upgrading the node group, its health and status are no reason, because this program can still follow the upgrade.
func (f *nodegroupFacts) refusalReason(g *at.AutoScalingGroup) string {
	if u := f.update; u != nil && u.Type == kt.UpdateTypeVersionUpdate && operationState(u.Status) == nodegroup.OperationRunning {
		return f.problem
	}
	return cmp.Or(refuseDeleted(g), refuseNodegroupStatus(&f.nodegroup), refuseOtherUpdate(&f.nodegroup, f.update), f.problem, refuseSuspended(g))
}

// addUpdateWidth sets from the update config how many nodes EKS replaces at the same time, and in which order. Without a config
// the default of one node stays (EKS E04, E05, E07, E09).
func addUpdateWidth(m *nodegroup.Managed, c *kt.NodegroupUpdateConfig) {
	if c == nil {
		return
	}
	m.TerminateFirst = c.UpdateStrategy == kt.NodegroupUpdateStrategiesMinimal
	switch {
	case sdk.ToInt32(c.MaxUnavailablePercentage) > 0:
		m.MaxUnavailable = nodegroup.Quantity{N: int(*c.MaxUnavailablePercentage), Percent: true}
	case sdk.ToInt32(c.MaxUnavailable) > 0:
		m.MaxUnavailable = nodegroup.Quantity{N: int(*c.MaxUnavailable)}
	}
}

// addFirstCommand returns the AWS CLI command after which EKS adds new nodes before it removes old nodes. An update config
// always needs a width (EKS API, NodegroupUpdateConfig), so the command contains the current width.
func addFirstCommand(g *at.AutoScalingGroup, width nodegroup.Quantity) string {
	name, _ := managedNameOf(g)
	kept := fmt.Sprintf("maxUnavailable=%d", width.N)
	if width.Percent {
		kept = fmt.Sprintf("maxUnavailablePercentage=%d", width.N)
	}
	return name.appendOptionsTo("aws eks update-nodegroup-config") + " --update-config " + kept + ",updateStrategy=" + string(kt.NodegroupUpdateStrategiesDefault)
}

// judgeInstance compares one instance with the wanted revision.
func (f *nodegroupFacts) judgeInstance(i at.Instance) (own nodegroup.Revision, outdated bool, why string) {
	ami := cmp.Or(sdk.ToString(i.ImageId), f.instanceImages[sdk.ToString(i.InstanceId)])
	if outdated, why = f.judgeImage(ami); !outdated && ami != "" {
		return f.wanted.describeRevision(), false, ""
	}
	return nodegroup.Revision{ID: ami, Name: ami, Image: ami, Kubernetes: f.images[ami].kubernetes}, outdated, why
}

// judgeImage reports whether an instance with the AMI is outdated, and how it differs. It does not use the Auto Scaling group's
// launch template, because EKS changes that template late. If the wanted AMI is not known, judgeImage compares the wanted
// release with the release that EKS reports for the node group. EKS reports a new release only after all nodes have it. The
// version of a user's template is compared by node labels, not here. An instance whose AMI is not known yet is new, so it is
// not outdated.
func (f *nodegroupFacts) judgeImage(ami string) (outdated bool, why string) {
	switch want := f.wanted.image; {
	case want != "" && (ami == "" || ami == want):
		return false, ""
	case want != "":
		return true, fmt.Sprintf("image %s, wanted %s", ami, want)
	case f.wanted.byTemplate || f.wanted.Release == f.own.Release:
		return false, ""
	default:
		return true, fmt.Sprintf("release %s, wanted %s", f.own.Release, f.wanted.Release)
	}
}

// judgeByLabel reports whether the node is outdated. It compares the AMI in the label that EKS sets. ok is false if the label
// or the wanted AMI is missing, or if the group is not managed.
func judgeByLabel(group *nodegroup.Group, node *corev1.Node) (outdated, ok bool) {
	ami := node.Labels[labelImage]
	if group.Managed == nil || group.Wanted.Image == "" || ami == "" {
		return false, false
	}
	return ami != group.Wanted.Image, true
}

// describeOperation describes an update. To is the revision to which the update moves the node group.
func describeOperation(u *kt.Update, wanted *managedRevision, force bool) nodegroup.Operation {
	op := nodegroup.Operation{ID: sdk.ToString(u.Id), Kind: string(u.Type), State: operationState(u.Status), Force: force, Began: sdk.ToTime(u.CreatedAt)}
	if u.Type == kt.UpdateTypeVersionUpdate {
		op.To = describeUpdateTarget(u, wanted)
	}
	if op.State == nodegroup.OperationFailed {
		op.Code, op.Failure, op.Resources = explainFailedUpdate(u.Errors, force)
		op.Cause = failureCauseOf(op.Code)
	}
	return op
}

// failureCauseOf returns the cause for the code of an update's first error, "" for other causes (EKS E33, E42).
func failureCauseOf(code string) nodegroup.FailureCause {
	switch kt.ErrorCode(code) {
	case kt.ErrorCodePodEvictionFailure:
		return nodegroup.DrainFailed
	case kt.ErrorCodeNodeCreationFailure:
		return nodegroup.LaunchFailed
	default:
		return ""
	}
}

// operationState converts the status of an update. An unknown status counts as running.
func operationState(s kt.UpdateStatus) nodegroup.OperationState {
	switch s {
	case kt.UpdateStatusSuccessful:
		return nodegroup.OperationSucceeded
	case kt.UpdateStatusFailed:
		return nodegroup.OperationFailed
	case kt.UpdateStatusCancelled:
		return nodegroup.OperationCancelled
	default:
		return nodegroup.OperationRunning
	}
}

func describeUpdateTarget(u *kt.Update, wanted *managedRevision) nodegroup.Revision {
	params := map[kt.UpdateParamType]string{}
	for _, p := range u.Params {
		params[p.Type] = sdk.ToString(p.Value)
	}
	to := *wanted
	to.image = ""
	to.Release = cmp.Or(params[kt.UpdateParamTypeReleaseVersion], params[kt.UpdateParamTypeVersion], "of update "+sdk.ToString(u.Id))
	to.Kubernetes, to.kubelet = params[kt.UpdateParamTypeVersion], ""
	if version, err := strconv.ParseInt(params[kt.UpdateParamTypeLaunchTemplateVersion], 10, 64); err == nil {
		to.Version = version
	} else {
		to.byTemplate = false
	}
	if to.revisionID() == wanted.revisionID() {
		return wanted.describeRevision()
	}
	return to.describeRevision()
}

// refuseNodegroupStatus refuses node groups that are being created or deleted, or that EKS reports as degraded. It ignores
// issues with pods that could not be evicted, because the next update evicts them again.
func refuseNodegroupStatus(g *kt.Nodegroup) string {
	name := managedName{sdk.ToString(g.ClusterName), sdk.ToString(g.NodegroupName)}
	var issues []kt.Issue
	if g.Health != nil {
		issues = slices.DeleteFunc(slices.Clone(g.Health.Issues), func(i kt.Issue) bool { return i.Code == kt.NodegroupIssueCodePodEvictionFailure })
	}
	why := ""
	if len(issues) > 0 {
		why = ": " + explainHealthIssue(issues[0])
	}
	switch g.Status {
	case kt.NodegroupStatusCreating:
		return "EKS is still creating it: wait with " + name.appendOptionsTo("aws eks wait nodegroup-active")
	case kt.NodegroupStatusDeleting:
		return "EKS is deleting it"
	case kt.NodegroupStatusCreateFailed, kt.NodegroupStatusDeleteFailed:
		return fmt.Sprintf("EKS could not create or delete it (%s)%s: delete it with %s", g.Status, why, name.appendOptionsTo("aws eks delete-nodegroup"))
	case kt.NodegroupStatusDegraded:
		if why != "" {
			return "EKS reports it as degraded" + why
		}
	}
	return ""
}

// refuseOtherUpdate refuses a node group during an update that is not an upgrade. It does not refuse a running upgrade, because
// package upgrade decides whether to follow it.
func refuseOtherUpdate(g *kt.Nodegroup, u *kt.Update) string {
	if u == nil || operationState(u.Status) != nodegroup.OperationRunning || u.Type == kt.UpdateTypeVersionUpdate {
		return ""
	}
	name := managedName{sdk.ToString(g.ClusterName), sdk.ToString(g.NodegroupName)}
	command := strings.Join([]string{
		"aws eks describe-update", shell.Option("--name", name.cluster), shell.Option("--nodegroup-name", name.nodegroup), shell.Option("--update-id", sdk.ToString(u.Id)),
	}, " ")
	return fmt.Sprintf("EKS is making another change to this node group (%s %s): wait until %s shows that it has finished", u.Type, sdk.ToString(u.Id), command)
}

// chooseNodegroup returns the Auto Scaling group of the cluster's node group, nil if there is none. All groups belong to node
// groups of the same name. If cluster is "", the node groups must belong to one cluster.
func chooseNodegroup(groups []at.AutoScalingGroup, cluster string) (*at.AutoScalingGroup, error) {
	clusters := map[string]bool{}
	var chosen []*at.AutoScalingGroup
	for i := range groups {
		if name, _ := managedNameOf(&groups[i]); cluster == "" || name.cluster == cluster {
			clusters[name.cluster] = true
			chosen = append(chosen, &groups[i])
		}
	}
	switch {
	case len(chosen) == 0:
		return nil, nil
	case len(clusters) > 1:
		return nil, fmt.Errorf("clusters %s have a node group of that name: name your cluster with --cluster-name", strings.Join(slices.Sorted(maps.Keys(clusters)), " and "))
	case len(chosen) > 1:
		return nil, fmt.Errorf("the node group has %d Auto Scaling groups: pass the name of one of them", len(chosen))
	}
	return chosen[0], nil
}
