package gkecloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

// PoolSpec describes a node pool.
type PoolSpec struct {
	Name string
	// Zones and Counts are the zones of its nodes, and the number of nodes in each.
	Zones  []string
	Counts []int
	// Version is the version of its nodes. "" means NodeVersion.
	Version string
	// Settings are its upgradeSettings as JSON. nil means GKE's default.
	Settings map[string]any
	// Labels are added to the labels of its nodes.
	Labels map[string]string
	// DrainTimeout is the pdbTimeoutDuration of its nodeDrainConfig. 0 means that it has none, and that Options.DrainLimit applies.
	DrainTimeout time.Duration
	// Autoscaled is true if GKE's autoscaler may change the size of the pool.
	Autoscaled bool
}

// pool is a node pool. The lock of its Cloud protects it.
type pool struct {
	PoolSpec
	version string // that GKE shows
	status  string
	etag    int
	nodes   []machine
	serial  int
	// phase is that of a running blue-green upgrade. green is the version of its new machines, and deletes the end of its soak.
	phase, green string
	deletes      time.Time
}

// machine is a machine of a pool.
type machine struct{ name, zone, version string }

// AddPool creates a pool and the Nodes of its machines.
func (c *Cloud) AddPool(ctx context.Context, spec PoolSpec) error {
	if spec.Version == "" {
		spec.Version = NodeVersion
	}
	c.mu.Lock()
	p := &pool{PoolSpec: spec, version: spec.Version, status: "RUNNING", etag: 1}
	c.pools = append(c.pools, p)
	var added []machine
	for i, zone := range spec.Zones {
		for range spec.Counts[i] {
			added = append(added, c.newMachine(p, zone, spec.Version))
		}
	}
	c.mu.Unlock()
	for _, m := range added {
		if err := c.boot(ctx, p, m); err != nil {
			return fmt.Errorf("creating pool %q: %w", spec.Name, err)
		}
	}
	return nil
}

// newMachine adds a machine to the pool. Its Node does not exist yet. The caller has the lock.
func (c *Cloud) newMachine(p *pool, zone, version string) machine {
	p.serial++
	m := machine{name: fmt.Sprintf("gke-%s-%s-%04d", c.options.Cluster, p.Name, p.serial), zone: zone, version: version}
	p.nodes = append(p.nodes, m)
	return m
}

// boot creates the machine's Node.
func (c *Cloud) boot(ctx context.Context, p *pool, m machine) error {
	labels := map[string]string{"cloud.google.com/gke-nodepool": p.Name, "pool": p.Name}
	for k, v := range p.Labels {
		labels[k] = v
	}
	return c.options.Nodes.Boot(ctx, awscloud.Machine{
		Name: m.name, InstanceID: m.name, ProviderID: fmt.Sprintf("gce://%s/%s/%s", c.options.Project, m.zone, m.name), Zone: m.zone, Region: c.options.Location,
		InstanceType: "e2-standard-2", Arch: "x86_64", Address: fmt.Sprintf("10.128.%d.%d", p.serial/250, p.serial%250+1), KubeletVersion: "v" + m.version, Labels: labels,
	})
}

// outdated returns the pool's machines of a zone that do not have the version.
func (p *pool) outdated(zone, version string) []machine {
	return slices.DeleteFunc(slices.Clone(p.nodes), func(m machine) bool { return m.zone != zone || m.version == version })
}

// remove removes the machine from the pool.
func (p *pool) remove(name string) {
	p.nodes = slices.DeleteFunc(p.nodes, func(m machine) bool { return m.name == name })
}

// width returns how many nodes the pool adds first and how many may be missing.
func (p *pool) width() (surge, unavailable int) {
	if p.Settings == nil {
		return 1, 0
	}
	number := func(field string) int {
		n, _ := p.Settings[field].(float64)
		return int(n)
	}
	return number("maxSurge"), number("maxUnavailable")
}

// json returns the pool as GKE shows it.
func (p *pool) json(project, cluster string) map[string]any {
	shown := map[string]any{
		"name": p.Name, "status": p.status, "version": p.version, "etag": fmt.Sprintf("etag-%d", p.etag),
		"config": map[string]any{"imageType": "COS_CONTAINERD", "machineType": "e2-standard-2"}, "locations": p.Zones, "initialNodeCount": p.Counts[0],
		"management": map[string]any{"autoUpgrade": true, "autoRepair": true},
	}
	settings := p.Settings
	if settings == nil {
		settings = map[string]any{"strategy": "SURGE", "maxSurge": 1}
	}
	shown["upgradeSettings"] = settings
	if info := p.infoJSON(p.green); info != nil {
		shown["updateInfo"] = info
	}
	if p.DrainTimeout > 0 {
		shown["nodeDrainConfig"] = map[string]any{"pdbTimeoutDuration": fmt.Sprintf("%gs", p.DrainTimeout.Seconds())}
	}
	if p.Autoscaled {
		shown["autoscaling"] = map[string]any{"enabled": true, "totalMaxNodeCount": 2 * len(p.nodes)}
	}
	var groups []string
	for _, zone := range p.Zones {
		groups = append(groups, fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/%s/zones/%s/instanceGroupManagers/gke-%s-%s-grp", project, zone, cluster, p.Name))
	}
	shown["instanceGroupUrls"] = groups
	return shown
}

// PoolState is a pool as a test sees it.
type PoolState struct {
	Version, Status string
	// Phase is that of a running blue-green upgrade.
	Phase string
	// Nodes are the versions of its nodes by name.
	Nodes    map[string]string
	Settings map[string]any
}

// Pool returns the state of a pool. It returns an error if there is no such pool.
func (c *Cloud) Pool(name string) (PoolState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.findPool(name)
	if p == nil {
		return PoolState{}, errors.New("no such pool: " + name)
	}
	state := PoolState{Version: p.version, Status: p.status, Phase: p.phase, Nodes: map[string]string{}, Settings: p.Settings}
	for _, m := range p.nodes {
		state.Nodes[m.name] = m.version
	}
	return state, nil
}

func (c *Cloud) findPool(name string) *pool {
	for _, p := range c.pools {
		if strings.EqualFold(p.Name, name) {
			return p
		}
	}
	return nil
}
