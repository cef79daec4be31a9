package awscloud_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
)

const (
	zoneA = "us-east-1a"
	zoneB = "us-east-1b"
	zoneC = "us-east-1c"
)

// recorder is a NodeHost that records its calls.
type recorder struct {
	mu       sync.Mutex
	calls    []string
	machines map[string]awscloud.Machine
}

func (h *recorder) record(verb, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, verb+" "+name)
}

func (h *recorder) Boot(_ context.Context, m awscloud.Machine) error {
	h.record("boot", m.Name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machines == nil {
		h.machines = map[string]awscloud.Machine{}
	}
	h.machines[m.Name] = m
	return nil
}

func (h *recorder) StopKubelet(_ context.Context, name string) error {
	h.record("stop", name)
	return nil
}

func (h *recorder) DeleteNode(_ context.Context, name string) error {
	h.record("delete", name)
	return nil
}

// machine returns the machine with which a Node was booted, or false if it was not booted.
func (h *recorder) machine(name string) (m awscloud.Machine, booted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, booted = h.machines[name]
	return m, booted
}

// callsFor lists the calls for one Node.
func (h *recorder) callsFor(name string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, c := range h.calls {
		var verb, who string
		if _, err := fmt.Sscan(c, &verb, &who); err == nil && who == name {
			out = append(out, verb)
		}
	}
	return out
}

// shortTimes returns options with short times, with which a test ends soon but still observes every state.
func shortTimes() awscloud.Options {
	return awscloud.Options{
		Boot: 60 * time.Millisecond, NodeReady: 10 * time.Millisecond, Terminate: 60 * time.Millisecond,
		NodeGoneAfter: 30 * time.Millisecond, HealthCheck: 30 * time.Millisecond, Rebalance: 50 * time.Millisecond,
		CapacityRetry: 100 * time.Millisecond, Tick: 5 * time.Millisecond,
	}
}

// start starts a stand-in with two images and one template. The template has two versions, each with one of the images.
func start(t *testing.T, o awscloud.Options) (c *awscloud.Cloud, template string) {
	t.Helper()
	c, err := awscloud.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		for _, err := range c.HostErrors() {
			t.Error(err)
		}
	})
	c.AddImage("ami-old", "v1.32.1", "x86_64")
	c.AddImage("ami-new", "v1.33.2", "x86_64")
	return c, c.AddTemplate("workers", version("ami-old"), version("ami-new"))
}

func version(image string) awscloud.TemplateVersion {
	return awscloud.TemplateVersion{
		Image: image, InstanceType: "m5.large",
		UserData: awscloud.NodeadmConfig("shop", "pool=workers", "eks.amazonaws.com/nodegroup-image="+image),
	}
}

// addGroup adds group "g" in three zones with instances of version 1 and with AZRebalance suspended. change can change the
// spec.
func addGroup(t *testing.T, c *awscloud.Cloud, template string, counts []int, change func(*awscloud.GroupSpec)) {
	t.Helper()
	spec := awscloud.GroupSpec{
		Name: "g", Zones: []string{zoneA, zoneB, zoneC}, Counts: counts, Min: 0, Max: 20,
		Template: awscloud.TemplateRef{ID: template, Version: "2"}, InitialVersion: 1,
		Tags:      map[string]string{"kubernetes.io/cluster/shop": "owned"},
		Suspended: []string{"AZRebalance"},
	}
	if change != nil {
		change(&spec)
	}
	if err := c.AddGroup(spec); err != nil {
		t.Fatal(err)
	}
}

func config(c *awscloud.Cloud) aws.Config {
	return aws.Config{
		HTTPClient: &awscloud.PlainBodies{},
		Region:     "us-east-1", BaseEndpoint: aws.String(c.URL()), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
	}
}

func scaling(c *awscloud.Cloud) *as.Client { return as.NewFromConfig(config(c)) }

func compute(c *awscloud.Cloud) *ec2.Client { return ec2.NewFromConfig(config(c)) }

// must returns the value of a call, and fails the test if the call failed.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantCode checks that err is an error of the API with that code, and returns its message.
func wantCode(t *testing.T, err error, code string) string {
	t.Helper()
	var e smithy.APIError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an API error with code %s", err, code)
	}
	if e.ErrorCode() != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	return e.ErrorMessage()
}

// status returns the current state of group "g".
func status(t *testing.T, c *awscloud.Cloud) awscloud.GroupStatus {
	t.Helper()
	return must(c.Group("g"))(t)
}

// await waits until ok returns true for group "g".
func await(t *testing.T, c *awscloud.Cloud, what string, ok func(awscloud.GroupStatus) bool) awscloud.GroupStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.WaitForGroup(ctx, "g", ok); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return status(t, c)
}

// inService returns a function that reports whether the group has exactly n instances, all in service.
func inService(n int) func(awscloud.GroupStatus) bool {
	return func(s awscloud.GroupStatus) bool {
		return len(s.Instances) == n && !slices.ContainsFunc(s.Instances, func(i awscloud.InstanceStatus) bool {
			return i.State != at.LifecycleStateInService
		})
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}
