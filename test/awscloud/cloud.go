package awscloud

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// Cloud is a running stand-in. Its methods may be called from any goroutine.
type Cloud struct {
	opts    Options
	url     string
	server  *httptest.Server
	home    *region
	hosts   *hostQueue
	faults  *faultPlan
	callers *callerBook
	log     *requestLog
	ctx     context.Context // until Stop; requests in progress continue without their clients, as in AWS
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// Start starts a stand-in without resources on a free port of the loopback interface. Call Stop to end it.
func Start(o Options) (*Cloud, error) {
	o = o.withDefaults()
	if len(o.Region) < 4 {
		return nil, fmt.Errorf("starting the AWS stand-in: region %q: name one as AWS does, us-east-1", o.Region)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the AWS stand-in: %w", err)
	}
	hosts := newHostQueue(o.Nodes, 10*o.Tick)
	c := &Cloud{
		opts:    o,
		url:     "http://" + listener.Addr().String(),
		home:    newRegion(o, hosts, time.Now()),
		hosts:   hosts,
		faults:  &faultPlan{},
		callers: &callerBook{account: o.Account, known: map[string]caller{}, used: map[string]map[string]int{}, denied: map[string]*denial{}},
		log:     &requestLog{out: o.Log},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: c.routes(), ReadHeaderTimeout: 10 * time.Second}}
	c.server.Start()
	c.done.Go(func() { c.hosts.run(c.ctx) })
	c.done.Go(c.runTicker)
	return c, nil
}

// runTicker updates instances and groups periodically until the stand-in stops.
func (c *Cloud) runTicker() {
	t := time.NewTicker(c.opts.Tick)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-t.C:
			c.home.tick()
		}
	}
}

// Stop stops the stand-in. It ends the requests in progress, closes all connections and waits until all goroutines of the
// stand-in have returned.
func (c *Cloud) Stop() {
	c.cancel()
	// All connections are closed after two seconds, because a client may keep a connection busy. http.Server.Shutdown would
	// also wait for connections on which no request has come yet (https://go.dev/issue/22682).
	late := time.AfterFunc(2*time.Second, c.server.CloseClientConnections)
	defer late.Stop()
	c.server.Close()
	c.home.updates.Wait()
	c.done.Wait()
}

// URL returns the endpoint of every service.
func (c *Cloud) URL() string { return c.url }

// Env returns the environment, as KEY=VALUE, for a program that uses an AWS SDK or the AWS CLI. With it, the program talks only
// to the stand-in.
func (c *Cloud) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + c.url,
		"AWS_REGION=" + c.opts.Region,
		"AWS_ACCESS_KEY_ID=" + AccessKey,
		"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"AWS_SESSION_TOKEN=",
		"AWS_PROFILE=",
		"AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// GroupStatus is the current state of a group. With Options.DescribeLag, the describe calls show an older state.
type GroupStatus struct {
	Name              string
	Min, Max, Desired int
	Zones             map[string]int // instances that count towards the capacity: Pending and InService
	Instances         []InstanceStatus
	Suspended         []string
}

// InstanceStatus is an instance that has not left its group.
type InstanceStatus struct {
	ID, Node, Zone  string
	State           at.LifecycleState
	Type, Image     string
	TemplateVersion string // empty with a launch configuration
	Protected       bool
	Unhealthy       bool
	Stopped         bool // the machine and its kubelet have stopped
}

// Group returns the state of a group. It fails if the group does not exist.
func (c *Cloud) Group(name string) (GroupStatus, error) {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	return c.home.status(name)
}

func (r *region) status(name string) (GroupStatus, error) {
	g, ok := r.groups[name]
	if !ok {
		return GroupStatus{}, fmt.Errorf("describing group %q: there is none: add it with AddGroup", name)
	}
	members := r.members(name)
	s := GroupStatus{
		Name: name, Min: g.min, Max: g.max, Desired: g.desired,
		Zones:     sizeOf(g, members, 0).Zones,
		Suspended: sortedKeys(g.suspended),
	}
	for _, i := range members {
		version := ""
		if i.spec.template.Version != nil {
			version = *i.spec.template.Version
		}
		s.Instances = append(s.Instances, InstanceStatus{
			ID: i.id, Node: i.node, Zone: i.zone, State: i.state, Type: i.spec.kind, Image: i.spec.image,
			TemplateVersion: version, Protected: i.protected, Unhealthy: i.unhealthy, Stopped: isStopped(i),
		})
	}
	return s, nil
}

// Timeline lists the sizes that a group has had, oldest first. For an unknown group the list is empty.
func (c *Cloud) Timeline(name string) []Size {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	return slices.Clone(c.home.timelines[name])
}

// WaitForGroup calls ok after every change and returns when ok returns true. It fails if ctx ends first or the group is
// unknown.
func (c *Cloud) WaitForGroup(ctx context.Context, name string, ok func(GroupStatus) bool) error {
	for {
		c.home.mu.Lock()
		s, err := c.home.status(name)
		changed := c.home.changed
		c.home.mu.Unlock()
		if err != nil {
			return err
		}
		if ok(s) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for group %q, last seen as %+v: %w", name, s, ctx.Err())
		case <-changed:
		}
	}
}

// Requests lists every request so far, in the order in which they were answered.
func (c *Cloud) Requests() []Request { return c.log.all() }

// HostErrors lists the errors of NodeHost calls that failed even after all retries.
func (c *Cloud) HostErrors() []error { return c.hosts.errors() }
