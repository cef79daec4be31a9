package awscloud

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// AddImage registers an AMI with its kubelet version (v1.33.2) and its architecture as EC2 names it (x86_64, arm64).
func (c *Cloud) AddImage(id, kubeletVersion, arch string) {
	_ = c.home.update(func(now time.Time) error {
		c.home.images[id] = image{id: id, kubelet: kubeletVersion, arch: arch, created: now}
		return nil
	})
}

// AddParameter sets an SSM parameter, for example the recommended AMI of a Kubernetes version.
func (c *Cloud) AddParameter(name, value string) {
	_ = c.home.update(func(now time.Time) error {
		p := c.home.parameters[name]
		c.home.parameters[name] = parameter{name: name, value: value, version: p.version + 1, modified: now}
		return nil
	})
}

// TemplateVersion is the content of a launch template version.
type TemplateVersion struct {
	Image        string // an AMI id, or resolve:ssm:/path/of/a/parameter
	InstanceType string
	UserData     string // as text; --node-labels=k=v,… in it sets labels of the Node
	Description  string
}

func (v TemplateVersion) data() templateData {
	d := templateData{image: v.Image, kind: v.InstanceType}
	if v.UserData != "" {
		d.userData = base64.StdEncoding.EncodeToString([]byte(v.UserData))
	}
	return d
}

// AddTemplate creates a launch template with versions 1, 2 and so on, and returns its id. $Default is version 1. If a template
// with this name exists, AddTemplate adds the versions to it.
func (c *Cloud) AddTemplate(name string, versions ...TemplateVersion) string {
	var id string
	_ = c.home.update(func(now time.Time) error {
		t, ok := c.home.findTemplate("", name)
		if !ok {
			t = &template{id: c.home.newID("lt"), name: name, created: now, defaultVersion: 1}
			c.home.templates[t.id] = t
		}
		for _, v := range versions {
			t.addVersion(v.data(), v.Description, c.home.nextBirthOrder(), now)
		}
		id = t.id
		return nil
	})
	return id
}

func (r *region) nextBirthOrder() int { r.counter++; return int(r.counter) }

// AddLaunchConfiguration creates a launch configuration, the predecessor of launch templates.
func (c *Cloud) AddLaunchConfiguration(name string, v TemplateVersion) {
	_ = c.home.update(func(now time.Time) error {
		c.home.configs[name] = at.LaunchConfiguration{
			LaunchConfigurationName: aws.String(name),
			LaunchConfigurationARN:  aws.String("arn:aws:autoscaling:" + c.opts.Region + ":" + c.opts.Account + ":launchConfiguration:" + c.home.uuid() + ":launchConfigurationName/" + name),
			ImageId:                 aws.String(v.Image),
			InstanceType:            aws.String(v.InstanceType),
			UserData:                aws.String(v.data().userData),
			CreatedTime:             aws.Time(now),
		}
		return nil
	})
}

// TemplateRef identifies a launch template version as groups do: by id or name, and by a number, $Latest or $Default.
type TemplateRef struct{ ID, Name, Version string }

func (t TemplateRef) specification() *at.LaunchTemplateSpecification {
	s := &at.LaunchTemplateSpecification{Version: aws.String(t.Version)}
	if t.ID != "" {
		s.LaunchTemplateId = aws.String(t.ID)
	}
	if t.Name != "" {
		s.LaunchTemplateName = aws.String(t.Name)
	}
	return s
}

// GroupSpec describes an Auto Scaling group to create. One of Template, Mixed and LaunchConfiguration defines the instances
// that it launches.
type GroupSpec struct {
	Name     string
	Zones    []string // us-east-1a, …; the earlier zone wins a tie
	Counts   []int    // instances InService from the start, by zone
	Min, Max int
	Desired  int // 0: the sum of Counts

	Template            TemplateRef
	Mixed               *at.MixedInstancesPolicy
	LaunchConfiguration string
	InitialVersion      int // template version of the first instances; 0: the version that the group launches

	Tags            map[string]string // on the group and its instances
	Suspended       []string          // processes, from the start
	TargetGroupARNs []string
	TrafficSources  []at.TrafficSourceIdentifier // only described; nothing is registered in them
	TerminatingHook time.Duration                // how long a TERMINATING lifecycle hook holds an instance; 0: no hook
	ProtectNew      bool                         // scale-in protection for instances that the group launches
	WarmPool        *at.WarmPoolConfiguration
	Refreshes       []at.InstanceRefresh // newest first
	Operator        string               // service principal that manages the group
}

func (s GroupSpec) validate(region string) error {
	if s.Name == "" || len(s.Zones) == 0 || len(s.Counts) > len(s.Zones) {
		return errors.New("give it a name, zones, and at most one count a zone")
	}
	for _, z := range s.Zones {
		if len(z) != len(region)+1 || !strings.HasPrefix(z, region) {
			return fmt.Errorf("zone %q is not in region %s: name it %sa or so", z, region, region)
		}
	}
	for _, p := range s.Suspended {
		if !slices.Contains(suspendableProcesses(), p) {
			return fmt.Errorf("process %q is none of %s", p, strings.Join(suspendableProcesses(), ", "))
		}
	}
	return nil
}

// AddGroup creates an Auto Scaling group with its first instances InService, and their Nodes. It fails if the spec is invalid or
// a Node could not be created.
func (c *Cloud) AddGroup(s GroupSpec) error {
	if err := c.addGroup(s); err != nil {
		return fmt.Errorf("adding group %q: %w", s.Name, err)
	}
	return nil
}

func (c *Cloud) addGroup(s GroupSpec) error {
	if err := s.validate(c.opts.Region); err != nil {
		return err
	}
	var g *group
	var members []instance
	var machines []Machine
	err := c.home.update(func(now time.Time) (err error) {
		g, members, err = c.home.newGroup(s, now)
		for _, i := range members {
			machines = append(machines, c.home.machine(i))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, m := range machines {
		m.ReadyAfter = 0
		if c.opts.Nodes == nil {
			break
		}
		if err := c.opts.Nodes.Boot(c.ctx, m); err != nil {
			return err
		}
	}
	return c.home.update(func(time.Time) error {
		c.home.groups[g.name] = g
		for _, i := range members {
			c.home.instances[i.id] = i
			c.home.launched = append(c.home.launched, i.id)
		}
		return nil
	})
}

// newGroup returns a group and its first instances without adding them to the region.
func (r *region) newGroup(s GroupSpec, now time.Time) (*group, []instance, error) {
	g := &group{
		spec: s, name: s.Name, created: now,
		arn: "arn:aws:autoscaling:" + r.opts.Region + ":" + r.opts.Account + ":autoScalingGroup:" + r.uuid() + ":autoScalingGroupName/" + s.Name,
		min: s.Min, max: s.Max, desired: s.Desired,
		mixed: s.Mixed, config: s.LaunchConfiguration,
		suspended: map[string]time.Time{}, blocked: map[string]time.Time{},
	}
	if s.Template != (TemplateRef{}) {
		g.template = s.Template.specification()
	}
	g.suspend(s.Suspended, now)
	if g.desired == 0 {
		for _, n := range s.Counts {
			g.desired += n
		}
	}
	if err := r.checkNewGroup(g); err != nil {
		return nil, nil, err
	}
	members, err := r.firstInstances(g, now)
	return g, members, err
}

// checkNewGroup returns the error with which CreateAutoScalingGroup would refuse the group.
func (r *region) checkNewGroup(g *group) error {
	if _, ok := r.groups[g.name]; ok {
		return clientError("AlreadyExists", "AutoScalingGroup by this name already exists - A group with the name %s already exists", g.name)
	}
	if err := checkGroupSizes(g.min, g.max, g.desired); err != nil {
		return err
	}
	return r.checkLaunchSource(g.template, g.mixed, g.config)
}

// firstInstances returns the instances that a new group has from the start.
func (r *region) firstInstances(g *group, now time.Time) ([]instance, error) {
	if len(g.spec.Counts) == 0 {
		return nil, nil
	}
	first := *g
	if v := g.spec.InitialVersion; v != 0 {
		first.template = withVersion(g.template, v)
		if g.mixed != nil {
			policy, template := *g.mixed, *g.mixed.LaunchTemplate
			template.LaunchTemplateSpecification = withVersion(template.LaunchTemplateSpecification, v)
			policy.LaunchTemplate, first.mixed = &template, &policy
		}
	}
	spec, err := r.resolveLaunchSpec(&first)
	if err != nil {
		return nil, err
	}
	var out []instance
	for z, n := range g.spec.Counts {
		for range n {
			i := r.newInstance(g, g.spec.Zones[z], spec, now)
			i.state, i.power, i.joined, i.launched = at.LifecycleStateInService, powerRunning, true, now.Add(-time.Hour)
			out = append(out, i)
		}
	}
	return out, nil
}

// withVersion returns the specification with another version, or nil for nil.
func withVersion(s *at.LaunchTemplateSpecification, version int) *at.LaunchTemplateSpecification {
	if s == nil {
		return nil
	}
	out := *s
	out.Version = aws.String(strconv.Itoa(version))
	return &out
}
