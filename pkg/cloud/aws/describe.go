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
	// providerName is what this provider is called.
	providerName = "aws"
	// processRebalance moves instances between zones and terminates them without a drain (EC2 Auto
	// Scaling user guide, Availability Zone rebalancing).
	processRebalance = "AZRebalance"
	// tagLabel starts the tags that tell cluster-autoscaler which labels a new node will have.
	tagLabel = "k8s.io/cluster-autoscaler/node-template/label/"
)

// outline describes the group as far as the group alone tells.
func outline(g *at.AutoScalingGroup) nodegroup.Group {
	out := nodegroup.Group{
		Name: sdk.ToString(g.AutoScalingGroupName), Provider: providerName, Kind: "Auto Scaling group",
		Sized: true, Desired: int(sdk.ToInt32(g.DesiredCapacity)), Min: int(sdk.ToInt32(g.MinSize)), Max: int(sdk.ToInt32(g.MaxSize)),
		Zones: slices.Sorted(slices.Values(g.AvailabilityZones)), Zonal: zonal(g),
		Suspended: suspended(g), Quiesce: []string{processRebalance}, WantedLabels: wantedLabels(g),
	}
	if s, err := specOf(g); err == nil && s.base.moves() {
		out.Follows = cmp.Or(s.base.name, s.base.id) + ":" + s.base.version
	}
	if name := tag(g, tagNodegroup); name != "" {
		out.Name, out.Kind = name, "EKS managed node group"
	}
	return out
}

// zonal reports whether LaunchInstances works on the group: launch templates only, no warm pool,
// and a mixed policy only if it is all On-Demand or all Spot (EC2 Auto Scaling user guide, "Launch
// instances synchronously").
func zonal(g *at.AutoScalingGroup) bool {
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
	return onDemand == 100 || onDemand == 0 && sdk.ToInt32(d.OnDemandBaseCapacity) == 0
}

func suspended(g *at.AutoScalingGroup) []string {
	var names []string
	for _, p := range g.SuspendedProcesses {
		names = append(names, sdk.ToString(p.ProcessName))
	}
	slices.Sort(names)
	return names
}

func tag(g *at.AutoScalingGroup, key string) string {
	for _, t := range g.Tags {
		if sdk.ToString(t.Key) == key {
			return sdk.ToString(t.Value)
		}
	}
	return ""
}

func wantedLabels(g *at.AutoScalingGroup) map[string]string {
	var labels map[string]string
	for _, t := range g.Tags {
		if key, ok := strings.CutPrefix(sdk.ToString(t.Key), tagLabel); ok && key != "" {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = sdk.ToString(t.Value)
		}
	}
	return labels
}

// facts are what AWS says beside the group itself.
type facts struct {
	pointed, wanted source
	// plain is the AMI of template versions that name one, images describes AMIs, and
	// machines is the AMI of instances as EC2 tells it. None of them need be complete.
	plain    map[versionKey]string
	images   map[string]image
	machines map[string]string
	refresh  at.InstanceRefreshStatus
	failure  nodegroup.LaunchFailure
	// problem says why the group cannot move to the wanted source, "" when it can.
	problem string
}

// versions are the template versions that the sources name.
func (f *facts) versions() []versionKey {
	var keys []versionKey
	for _, l := range f.launches() {
		if l.version > 0 {
			keys = append(keys, versionKey{l.template, l.version})
		}
	}
	return keys
}

func (f *facts) launches() []*launch { return append(f.pointed.launches(), f.wanted.launches()...) }

// fill adds what the template versions say to the sources: as they are written, and with SSM
// aliases resolved.
func (f *facts) fill(written, resolved map[versionKey]templateVersion) {
	f.plain = map[versionKey]string{}
	for key, v := range written {
		if !v.alias() {
			f.plain[key] = v.image
		}
	}
	for _, l := range f.launches() {
		v := resolved[versionKey{l.template, l.version}]
		l.name, l.image = cmp.Or(l.name, v.name), cmp.Or(l.image, v.image)
	}
	f.wanted.base.name = cmp.Or(f.wanted.base.name, f.pointed.base.name)
}

// complete adds to the outline what the facts tell.
func complete(out *nodegroup.Group, g *at.AutoScalingGroup, f *facts) {
	out.Wanted, out.Pointed = f.wanted.revision(f.images), f.pointed.revision(f.images)
	out.LaunchFailure = f.failure
	for _, i := range g.Instances {
		out.Instances = append(out.Instances, f.instance(i))
	}
	slices.SortFunc(out.Instances, func(a, b nodegroup.Instance) int { return strings.Compare(a.ID, b.ID) })
	out.Refusal = refusal(g, out.Instances, f.refresh)
	if out.Refusal == "" {
		out.Refusal = f.problem
	}
}

// instance describes one instance, judged against the wanted source.
func (f *facts) instance(i at.Instance) nodegroup.Instance {
	l := f.launchOf(i)
	own := source{base: l, imageOnly: f.wanted.imageOnly}
	outdated, why := f.wanted.judge(l, sdk.ToString(i.InstanceType))
	return nodegroup.Instance{
		ID: sdk.ToString(i.InstanceId), Zone: sdk.ToString(i.AvailabilityZone), State: stateOf(i.LifecycleState),
		Revision: own.revision(f.images), Outdated: outdated, Why: why, Protected: sdk.ToBool(i.ProtectedFromScaleIn),
	}
}

// launchOf is how the instance was launched, with its image as far as anybody tells.
func (f *facts) launchOf(i at.Instance) launch {
	l := launchOf(i)
	l.image = cmp.Or(l.image, f.plain[versionKey{l.template, l.version}], f.machines[sdk.ToString(i.InstanceId)])
	return l
}

// unknown lists the instances whose image must be asked of EC2: those that all else leaves current.
func (f *facts) unknown(g *at.AutoScalingGroup) []string {
	var ids []string
	for _, i := range g.Instances {
		l := f.launchOf(i)
		if l.template == "" || l.image != "" || stateOf(i.LifecycleState) == nodegroup.InstanceLeaving {
			continue
		}
		if outdated, _ := f.wanted.judge(l, sdk.ToString(i.InstanceType)); !outdated {
			ids = append(ids, sdk.ToString(i.InstanceId))
		}
	}
	return ids
}

// missing reports whether fewer instances are there than asked for. Those on standby do not count.
func missing(g *at.AutoScalingGroup) bool {
	n := 0
	for _, i := range g.Instances {
		if i.LifecycleState == at.LifecycleStateInService || stateOf(i.LifecycleState) == nodegroup.InstancePending {
			n++
		}
	}
	return n < int(sdk.ToInt32(g.DesiredCapacity))
}

// launchFailure is the newest failed launch among activities, which are sorted newest first.
func launchFailure(activities []at.Activity) nodegroup.LaunchFailure {
	for _, a := range activities {
		if a.StatusCode == at.ScalingActivityStatusCodeFailed && strings.HasPrefix(sdk.ToString(a.Description), "Launching") {
			return nodegroup.LaunchFailure{At: sdk.ToTime(a.StartTime), Message: strings.TrimRight(sdk.ToString(a.StatusMessage), " .")}
		}
	}
	return nodegroup.LaunchFailure{}
}
