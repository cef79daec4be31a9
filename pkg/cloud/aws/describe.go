package aws

import (
	"cmp"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// providerName is this provider's name.
	providerName = "aws"
	// processRebalance moves instances between zones and terminates them without a drain (EC2 Auto
	// Scaling user guide, Availability Zone rebalancing).
	processRebalance = "AZRebalance"
	// tagLabelPrefix is the prefix of the tags that list the labels of a new node for cluster-autoscaler.
	tagLabelPrefix = "k8s.io/cluster-autoscaler/node-template/label/"
	// tagAutoscalerEnabled is the tag by which cluster-autoscaler finds the group (its README for AWS,
	// "Auto-Discovery Setup").
	tagAutoscalerEnabled = "k8s.io/cluster-autoscaler/enabled"
)

// describeGroup describes the group with only the facts that the Auto Scaling group itself contains.
func describeGroup(g *at.AutoScalingGroup) nodegroup.Group {
	out := nodegroup.Group{
		Name: sdk.ToString(g.AutoScalingGroupName), Provider: providerName, Kind: "Auto Scaling group",
		Can: listCapabilities(g), Desired: int(sdk.ToInt32(g.DesiredCapacity)), Min: int(sdk.ToInt32(g.MinSize)), Max: int(sdk.ToInt32(g.MaxSize)),
		Zones: slices.Sorted(slices.Values(g.AvailabilityZones)), Spot: launchesOnlySpot(g),
		Suspended: suspendedProcesses(g), Quiesce: []string{processRebalance}, Scaling: []string{"AlarmNotification", "ScheduledActions"}, WantedLabels: wantedLabels(g),
		Autoscaler: nodegroup.Autoscaler{Tagged: hasTag(g, tagAutoscalerEnabled)},
	}
	if s, err := launchSourceOf(g); err == nil && s.base.usesAlias() {
		out.Follows = cmp.Or(s.base.name, s.base.template) + ":" + s.base.written
	}
	return out
}

// listCapabilities returns the actions that the Auto Scaling group supports.
func listCapabilities(g *at.AutoScalingGroup) nodegroup.Capabilities {
	can := nodegroup.FullControl()
	can.NameZone = supportsZonalLaunch(g)
	return can
}

// supportsZonalLaunch reports whether LaunchInstances works on the group. The group must have a launch template and no warm
// pool. A mixed policy must be all On-Demand or all Spot (EC2 Auto Scaling user guide, "Launch instances synchronously").
func supportsZonalLaunch(g *at.AutoScalingGroup) bool {
	if g.WarmPoolConfiguration != nil {
		return false
	}
	if mixedTemplate(g) == nil {
		return g.LaunchTemplate != nil
	}
	d := g.MixedInstancesPolicy.InstancesDistribution
	if d == nil {
		return true // the default is all On-Demand
	}
	if len(d.DistributionSegments) > 0 {
		return false
	}
	onDemand := int32(100)
	if d.OnDemandPercentageAboveBaseCapacity != nil {
		onDemand = *d.OnDemandPercentageAboveBaseCapacity
	}
	return onDemand == 100 || launchesOnlySpot(g)
}

// launchesOnlySpot reports whether the group's mixed policy launches only Spot instances.
func launchesOnlySpot(g *at.AutoScalingGroup) bool {
	if g.MixedInstancesPolicy == nil || g.MixedInstancesPolicy.InstancesDistribution == nil {
		return false
	}
	d := g.MixedInstancesPolicy.InstancesDistribution
	return d.OnDemandPercentageAboveBaseCapacity != nil && *d.OnDemandPercentageAboveBaseCapacity == 0 && sdk.ToInt32(d.OnDemandBaseCapacity) == 0
}

func suspendedProcesses(g *at.AutoScalingGroup) []string {
	var names []string
	for _, p := range g.SuspendedProcesses {
		names = append(names, sdk.ToString(p.ProcessName))
	}
	slices.Sort(names)
	return names
}

func tagValue(g *at.AutoScalingGroup, key string) string {
	for _, t := range g.Tags {
		if sdk.ToString(t.Key) == key {
			return sdk.ToString(t.Value)
		}
	}
	return ""
}

func hasTag(g *at.AutoScalingGroup, key string) bool {
	return slices.ContainsFunc(g.Tags, func(t at.TagDescription) bool { return sdk.ToString(t.Key) == key })
}

func wantedLabels(g *at.AutoScalingGroup) map[string]string {
	var labels map[string]string
	for _, t := range g.Tags {
		if key, ok := strings.CutPrefix(sdk.ToString(t.Key), tagLabelPrefix); ok && key != "" {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = sdk.ToString(t.Value)
		}
	}
	return labels
}

// groupFacts contains what AWS reports about a group besides the Auto Scaling group itself.
type groupFacts struct {
	pointed, wanted launchSource
	// plainImages contains the AMIs of template versions that name an AMI. images describes AMIs by ID. instanceImages contains
	// the AMI of each instance as EC2 reports it. Each map may be incomplete.
	plainImages    map[versionKey]string
	images         map[string]image
	instanceImages map[string]string
	refresh        at.InstanceRefreshStatus
	failure        nodegroup.LaunchFailure
	// spot is true if the wanted template version asks for Spot instances.
	spot bool
	// problem is the reason why the group cannot move to the wanted source, "" if it can.
	problem string
	// unread becomes nodegroup.Group.Unread.
	unread []string
	// absent is true if the problem is that the wanted image does not exist.
	absent bool
}

// templateVersions lists the template versions that the sources name.
func (f *groupFacts) templateVersions() []versionKey {
	var keys []versionKey
	for _, l := range f.allLaunches() {
		if l.version > 0 {
			keys = append(keys, versionKey{l.template, l.version})
		}
	}
	return keys
}

func (f *groupFacts) allLaunches() []*launch {
	return append(f.pointed.allLaunches(), f.wanted.allLaunches()...)
}

// fillImages sets the images and template names in the sources. written contains the template versions as they are, and
// resolved contains them with AMIs in place of SSM aliases.
func (f *groupFacts) fillImages(written, resolved map[versionKey]templateVersion) {
	f.plainImages = map[versionKey]string{}
	for key, v := range written {
		if !v.hasImageAlias() {
			f.plainImages[key] = v.image
		}
	}
	for _, l := range f.allLaunches() {
		v := resolved[versionKey{l.template, l.version}]
		l.name, l.image = cmp.Or(l.name, v.name), cmp.Or(l.image, v.image)
	}
	f.wanted.base.name = cmp.Or(f.wanted.base.name, f.pointed.base.name)
	f.spot = resolved[versionKey{f.wanted.base.template, f.wanted.base.version}].spot
}

// addGroupFacts adds the facts to the group's description.
func addGroupFacts(out *nodegroup.Group, g *at.AutoScalingGroup, f *groupFacts) {
	out.Wanted, out.Pointed = f.wanted.describeRevision(f.images), f.pointed.describeRevision(f.images)
	out.LaunchFailure, out.Spot, out.Unread = f.failure, out.Spot || f.spot, f.unread
	out.Instances = describeInstances(g, f.judgeInstance)
	out.Refusal, out.AbsentTarget = cmp.Or(refusalReason(g, out.Instances, f.refresh), f.problem), f.absent
}

// describeInstances describes the group's instances, sorted by ID. It calls judge for each instance.
func describeInstances(g *at.AutoScalingGroup, judge func(at.Instance) (own nodegroup.Revision, outdated bool, why string)) []nodegroup.Instance {
	var out []nodegroup.Instance
	for _, i := range g.Instances {
		own, outdated, why := judge(i)
		out = append(out, nodegroup.Instance{
			ID: sdk.ToString(i.InstanceId), Zone: sdk.ToString(i.AvailabilityZone), State: instanceStateOf(i.LifecycleState),
			Revision: own, Outdated: outdated, Why: why, Protected: sdk.ToBool(i.ProtectedFromScaleIn),
		})
	}
	slices.SortFunc(out, func(a, b nodegroup.Instance) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// judgeInstance compares one instance with the wanted source.
func (f *groupFacts) judgeInstance(i at.Instance) (own nodegroup.Revision, outdated bool, why string) {
	l := f.launchAndImageOf(i)
	source := launchSource{base: l, imageOnly: f.wanted.imageOnly}
	outdated, why = f.wanted.judgeInstance(l, sdk.ToString(i.InstanceType))
	return source.describeRevision(f.images), outdated, why
}

// launchAndImageOf returns how the instance was launched. It adds the image that the template or EC2 reports if the group
// reports none.
func (f *groupFacts) launchAndImageOf(i at.Instance) launch {
	l := launchOf(i)
	l.image = cmp.Or(l.image, f.plainImages[versionKey{l.template, l.version}], f.instanceImages[sdk.ToString(i.InstanceId)])
	return l
}

// instancesWithUnknownImage lists the instances whose image must be read from EC2. Everything else about these instances is
// current.
func (f *groupFacts) instancesWithUnknownImage(g *at.AutoScalingGroup) []string {
	var ids []string
	for _, i := range g.Instances {
		l := f.launchAndImageOf(i)
		if l.template == "" || l.image != "" || instanceStateOf(i.LifecycleState) == nodegroup.InstanceLeaving {
			continue
		}
		if outdated, _ := f.wanted.judgeInstance(l, sdk.ToString(i.InstanceType)); !outdated {
			ids = append(ids, sdk.ToString(i.InstanceId))
		}
	}
	return ids
}

// lacksInstances reports whether the group has fewer instances than its desired capacity. Instances on standby do not count.
func lacksInstances(g *at.AutoScalingGroup) bool {
	n := 0
	for _, i := range g.Instances {
		if i.LifecycleState == at.LifecycleStateInService || instanceStateOf(i.LifecycleState) == nodegroup.InstancePending {
			n++
		}
	}
	return n < int(sdk.ToInt32(g.DesiredCapacity))
}

// newestLaunchFailure returns the newest failed launch. The activities are sorted, the newest first.
func newestLaunchFailure(activities []at.Activity) nodegroup.LaunchFailure {
	for _, a := range activities {
		if a.StatusCode == at.ScalingActivityStatusCodeFailed && strings.HasPrefix(sdk.ToString(a.Description), "Launching") {
			return nodegroup.LaunchFailure{At: sdk.ToTime(a.StartTime), Message: strings.TrimRight(sdk.ToString(a.StatusMessage), " .")}
		}
	}
	return nodegroup.LaunchFailure{}
}
