package awscloud

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// region is the state of one region. Callers of its methods must hold the lock, unless the comment of a method states
// otherwise.
type region struct {
	opts  Options
	hosts *hostQueue
	start time.Time

	mu             sync.Mutex // guards the fields below
	groups         map[string]*group
	instances      map[string]instance
	launched       []string             // instance ids in order of launch
	templates      map[string]*template // by id
	configs        map[string]at.LaunchConfiguration
	images         map[string]image
	parameters     map[string]parameter
	clusters       map[string]ekstypes.Cluster
	nodegroups     map[string]map[string]*nodegroup // by cluster and name
	balancers      balancers
	launchLimits   map[string]int         // how many more launches a zone allows; without an entry there is no limit
	launches       map[string]*launchCall // by client token
	versions       map[string]versionCall // by client token
	addresses      map[string]int         // how many addresses were given out, by zone
	otherAddresses map[string]int         // addresses of other machines, by zone
	counter        uint64
	past           []view
	timelines      map[string][]Size
	changed        chan struct{} // closed and replaced after every change

	releases        map[string]string // the image of each EKS release
	recommended     map[string]string // the release of each Kubernetes version
	blockedDrains   map[string]bool   // nodes; "" for every node
	postponedDrains map[string]bool   // nodes
	updates         sync.WaitGroup    // the running updates of managed node groups
}

func newRegion(o Options, hosts *hostQueue, now time.Time) *region {
	return &region{
		opts:           o,
		hosts:          hosts,
		start:          now,
		groups:         map[string]*group{},
		instances:      map[string]instance{},
		templates:      map[string]*template{},
		configs:        map[string]at.LaunchConfiguration{},
		images:         map[string]image{},
		parameters:     map[string]parameter{},
		clusters:       map[string]ekstypes.Cluster{},
		nodegroups:     map[string]map[string]*nodegroup{},
		balancers:      balancers{map[string]*targetGroup{}},
		launchLimits:   map[string]int{},
		launches:       map[string]*launchCall{},
		versions:       map[string]versionCall{},
		addresses:      map[string]int{},
		otherAddresses: map[string]int{},
		timelines:      map[string][]Size{},
		changed:        make(chan struct{}),

		releases:        map[string]string{},
		recommended:     map[string]string{},
		blockedDrains:   map[string]bool{},
		postponedDrains: map[string]bool{},
	}
}

// update calls f with the lock, and then calls recordChange. The caller must not hold the lock.
func (r *region) update(f func(now time.Time) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	err := f(now)
	r.recordChange(now)
	return err
}

// tick advances instances, groups and targets to the present time.
func (r *region) tick() {
	_ = r.update(func(now time.Time) error {
		for _, id := range slices.Clone(r.launched) {
			before := r.instances[id]
			r.storeInstance(before, advanceInstance(before, r.opts, now), now)
		}
		for _, name := range sortedKeys(r.groups) {
			r.adjustGroup(r.groups[name], now)
			r.registerInstances(r.groups[name], now)
		}
		r.balancers.removeDrained(now)
		return nil
	})
}

// recordChange adds the state after a change to the timelines and to the views for lagging reads. It wakes the callers that
// wait for a change.
func (r *region) recordChange(now time.Time) {
	for name, g := range r.groups {
		r.timelines[name] = appendSize(r.timelines[name], sizeOf(g, r.members(name), now.Sub(r.start)))
	}
	if r.opts.DescribeLag > 0 {
		r.past = append(dropOldViews(r.past, now.Add(-r.opts.DescribeLag)), r.view(now))
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// storeInstance stores the changed instance. It also ends the instance's activity and queues the calls for the Node if the
// change requires that.
func (r *region) storeInstance(before, after instance, now time.Time) {
	if g := r.groups[after.group]; g != nil {
		if before.state == at.LifecycleStatePending && after.state == at.LifecycleStateInService || after.left && !before.left {
			g.endActivity(after.activity, now, "")
		}
	}
	r.instances[after.id] = after
	if after.forgotten {
		delete(r.instances, after.id)
		r.launched = slices.DeleteFunc(r.launched, func(id string) bool { return id == after.id })
	}
	r.hosts.enqueue(r.machine(after), nodeEffects(before, after)...)
}

// members lists the group's instances that have not left the group, in the order of their launch.
func (r *region) members(group string) []instance {
	var out []instance
	for _, id := range r.launched {
		if i := r.instances[id]; i.group == group && !i.left {
			out = append(out, i)
		}
	}
	return out
}

// liveMembers lists the instances that count towards the group's capacity.
func (r *region) liveMembers(group string) []instance {
	return slices.DeleteFunc(r.members(group), func(i instance) bool { return !isLive(i) })
}

// machine returns the facts about the instance from which its Node is created.
func (r *region) machine(i instance) Machine {
	img := r.images[i.spec.image]
	return Machine{
		Name:           i.node,
		InstanceID:     i.id,
		ProviderID:     "aws:///" + i.zone + "/" + i.id,
		Zone:           i.zone,
		Region:         r.opts.Region,
		InstanceType:   i.spec.kind,
		Image:          i.spec.image,
		Arch:           img.arch,
		Address:        i.address,
		KubeletVersion: img.kubelet,
		Labels:         i.spec.labels,
		ReadyAfter:     r.opts.NodeReady,
	}
}

// nextRandom returns 64 pseudo-random bits. The sequence is the same in every run (splitmix64).
func (r *region) nextRandom() uint64 {
	r.counter++
	return mixBits(r.counter)
}

func mixBits(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// newID returns an EC2 resource id: the prefix and 17 hexadecimal digits.
func (r *region) newID(prefix string) string { return fmt.Sprintf("%s-0%016x", prefix, r.nextRandom()) }

func (r *region) uuid() string {
	a, b := r.nextRandom(), r.nextRandom()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff)
}

// subnetID returns the id of a zone's only subnet.
func subnetID(zone string) string {
	n := uint64(0)
	for _, c := range zone {
		n = mixBits(n + uint64(c))
	}
	return fmt.Sprintf("subnet-0%016x", n)
}

// zoneIndex returns the index of the zone's letter: 0 for us-east-1a.
func zoneIndex(zone string) int { return int(zone[len(zone)-1] - 'a') }

// zoneID returns the zone's id, which is the same in all accounts: us-east-1a is use1-az1.
func zoneID(zone string) string {
	parts := strings.Split(zone, "-")
	id := parts[0]
	for _, p := range parts[1:] {
		id += p[:1]
	}
	return fmt.Sprintf("%s-az%d", id, zoneIndex(zone)+1)
}
