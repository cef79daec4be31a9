package aws

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Aliases of a launch template's version number.
const (
	latestVersion  = "$Latest"
	defaultVersion = "$Default"
)

// refusedError is the reason why a group cannot be upgraded, with the remedy. It becomes nodegroup.Group.Refusal.
type refusedError string

func (r refusedError) Error() string { return string(r) }

func newRefusedError(format string, args ...any) refusedError {
	return refusedError(fmt.Sprintf(format, args...))
}

// absentError is a refusedError about a target that does not exist.
type absentError struct{ refusedError }

// Unwrap returns the refusal.
func (a absentError) Unwrap() error { return a.refusedError }

func newAbsentError(format string, args ...any) absentError {
	return absentError{newRefusedError(format, args...)}
}

// isAbsent reports whether the error means that a target does not exist.
func isAbsent(err error) bool {
	_, absent := errors.AsType[absentError](err)
	return absent
}

// launchSourceOf returns the group's launch source as the group names it, with $Latest and $Default not resolved. The source is
// a launch configuration, a launch template, or the base of a mixed instances policy with the overrides that differ from the
// base. If the group has no source, launchSourceOf returns a refusedError.
func launchSourceOf(g *at.AutoScalingGroup) (launchSource, error) {
	var s launchSource
	switch {
	case g.LaunchConfigurationName != nil:
		s.base.configuration = *g.LaunchConfigurationName
	case g.LaunchTemplate != nil:
		s.base = launchOfSpecification(g.LaunchTemplate)
	case mixedTemplate(g) != nil:
		s.base = launchOfSpecification(mixedTemplate(g))
		for _, o := range g.MixedInstancesPolicy.LaunchTemplate.Overrides {
			s.addOverride(o)
		}
	default:
		return launchSource{}, refusedError("it has no launch template: add one")
	}
	return s, nil
}

func mixedTemplate(g *at.AutoScalingGroup) *at.LaunchTemplateSpecification {
	if g.MixedInstancesPolicy == nil || g.MixedInstancesPolicy.LaunchTemplate == nil {
		return nil
	}
	return g.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification
}

func (s *launchSource) addOverride(o at.LaunchTemplateOverrides) {
	if o.LaunchTemplateSpecification == nil && sdk.ToString(o.ImageId) == "" {
		return
	}
	own := override{instanceType: sdk.ToString(o.InstanceType), launch: s.base}
	if o.LaunchTemplateSpecification != nil {
		own.launch = launchOfSpecification(o.LaunchTemplateSpecification)
	}
	own.image = sdk.ToString(o.ImageId)
	s.overrides = append(s.overrides, own)
}

// launchOfSpecification converts a launch template specification. The default version is $Default (EC2 Auto Scaling API,
// LaunchTemplateSpecification).
func launchOfSpecification(s *at.LaunchTemplateSpecification) launch {
	return launch{
		template: sdk.ToString(s.LaunchTemplateId), name: sdk.ToString(s.LaunchTemplateName),
		written: cmp.Or(sdk.ToString(s.Version), defaultVersion),
	}
}

// templatesByAlias lists the IDs of the templates whose version the source or the target names by $Latest or $Default, sorted.
func (s *launchSource) templatesByAlias(wish target) []string {
	ids := map[string]bool{}
	for _, l := range s.allLaunches() {
		if l.usesAlias() {
			ids[l.template] = true
		}
	}
	if (launch{written: wish.version}).usesAlias() && s.base.configuration == "" {
		ids[s.base.template] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// usesLatestVersion reports whether the group launches from $Latest of the template.
func usesLatestVersion(g *at.AutoScalingGroup, template string) bool {
	s, err := launchSourceOf(g)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.allLaunches(), func(l *launch) bool { return l.template == template && l.written == latestVersion })
}

// launch is the template version or launch configuration from which a group launches an instance, or from which an instance was
// launched.
type launch struct {
	configuration string
	template      string // the template's ID
	name          string // the template's name
	// written is the template version as the group names it: a number, $Latest or $Default. It is "" after resolveVersion has
	// set version.
	written string
	version int64
	// image is the AMI, "" if it is not known.
	image string
}

func (l launch) usesAlias() bool { return l.written == latestVersion || l.written == defaultVersion }

// displayName returns the launch's name for people: "workers:7", or "workers" without a version.
func (l launch) displayName() string {
	switch {
	case l.configuration != "":
		return l.configuration
	case l.version == 0:
		return cmp.Or(l.name, l.template)
	default:
		return fmt.Sprintf("%s:%d", cmp.Or(l.name, l.template), l.version)
	}
}

// launchSource is what a group launches from. launchSourceOf returns it as the group names it. resolveVersions and fillImages
// add the version numbers and the images.
type launchSource struct {
	base      launch
	overrides []override
	// imageOnly is true if the target is an AMI. In this case only the image is compared and not the version number.
	imageOnly bool
}

// override is an entry of a mixed instances policy that has its own template or image. Its instance type is empty if the entry
// names instance requirements instead of a type.
type override struct {
	instanceType string
	launch
}

// resolveVersions returns the source with version numbers in place of $Latest and $Default. templates must contain the
// templates that templatesByAlias lists. resolveVersions returns an absentError for a version that is not a number.
func (s launchSource) resolveVersions(templates map[string]et.LaunchTemplate) (launchSource, error) {
	s.overrides = slices.Clone(s.overrides)
	for _, l := range s.allLaunches() {
		if err := l.resolveVersion(templates); err != nil {
			return launchSource{}, err
		}
	}
	return s, nil
}

func (l *launch) resolveVersion(templates map[string]et.LaunchTemplate) error {
	if l.configuration != "" {
		return nil
	}
	known, ok := templates[l.template]
	switch {
	case l.written == latestVersion && ok:
		l.version = sdk.ToInt64(known.LatestVersionNumber)
	case l.written == defaultVersion && ok:
		l.version = sdk.ToInt64(known.DefaultVersionNumber)
	default:
		l.version, _ = strconv.ParseInt(l.written, 10, 64) // a version that is not a number is refused below
	}
	if l.version < 1 {
		return newAbsentError("launch template %s has no version %q: set the group to a version that exists", l.template, l.written)
	}
	l.written = ""
	return nil
}

// allLaunches returns pointers to all launches of the source, so that the caller can change them.
func (s *launchSource) allLaunches() []*launch {
	out := []*launch{&s.base}
	for i := range s.overrides {
		out = append(out, &s.overrides[i].launch)
	}
	return out
}

// target is the value of --to for an Auto Scaling group. The zero value is the group's own source.
type target struct {
	version string
	image   string
}

var imageID = cloud.CompileLater(`^ami-[0-9a-z]+$`)

// parseTarget parses --to: a template version or an AMI. A version is a number, $Latest or $Default. The dollar sign may be
// missing, and case does not matter. For any other text parseTarget returns an absentError.
func parseTarget(text string) (target, error) {
	switch strings.ToLower(strings.TrimPrefix(text, "$")) {
	case "":
		return target{}, nil
	case "latest":
		return target{version: latestVersion}, nil
	case "default":
		return target{version: defaultVersion}, nil
	}
	if imageID().MatchString(text) {
		return target{image: text}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 63); err == nil && n > 0 {
		return target{version: strconv.FormatUint(n, 10)}, nil
	}
	return target{}, newAbsentError("--to=%s is neither a launch template version nor an AMI: use a value such as 7, $Latest, $Default or ami-0123456789abcdef0", text)
}

// withTarget returns the source that the group will have after it has moved to the target. It returns a refusedError if the
// group cannot use the target.
func (s launchSource) withTarget(t target, templates map[string]et.LaunchTemplate) (launchSource, error) {
	switch {
	case t == target{}:
		return s, nil
	case s.base.configuration != "":
		return launchSource{}, newRefusedError("it launches from launch configuration %s, which --to cannot change: change the group to a launch template", s.base.configuration)
	case t.image != "" && len(s.overrides) > 0:
		return launchSource{}, refusedError("some instance types of its mixed instances policy have their own template or image, but --to is one image: create the new template versions yourself and remove --to")
	case t.image != "":
		s.base.version, s.base.image, s.imageOnly = 0, t.image, true
		return s, nil
	}
	s.base = launch{template: s.base.template, name: s.base.name, written: t.version}
	err := s.base.resolveVersion(templates)
	return s, err
}

// revisionID returns the source's ID. It contains the template version and the image, "lt-0abc:7:ami-0123". If the target is an
// AMI, it contains only the template and the image, "lt-0abc@ami-0123". If two sources have the same ID, instances of one
// source are current for the other.
func (s *launchSource) revisionID() string {
	switch {
	case s.base.configuration != "":
		return "lc:" + s.base.configuration
	case s.imageOnly:
		return s.base.template + "@" + s.base.image
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%s", s.base.template, s.base.version, s.base.image)
	for _, o := range s.overrides {
		fmt.Fprintf(&b, ",%s=%s:%d:%s", o.instanceType, o.template, o.version, o.image)
	}
	return b.String()
}

// revisionName returns the source's name for people: "workers:7", or "workers@ami-0123" if the target is an AMI.
func (s *launchSource) revisionName() string {
	if s.imageOnly && s.base.configuration == "" {
		return cmp.Or(s.base.name, s.base.template) + "@" + s.base.image
	}
	return s.base.displayName()
}

// revisionPointer is the JSON of nodegroup.Revision.Spec. It contains everything that is needed to point a group at a revision.
// It omits the templates of overrides, because setting a revision does not change them.
type revisionPointer struct {
	LaunchConfiguration string `json:"launchConfiguration,omitempty"`
	Template            string `json:"launchTemplate,omitempty"`
	// Version is the number of the template version. If Version is 0, setRevision adds a new version with Image.
	Version int64  `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`
}

// describeRevision converts the source to a revision for package upgrade.
func (s *launchSource) describeRevision(images map[string]image) nodegroup.Revision {
	p := revisionPointer{LaunchConfiguration: s.base.configuration, Template: s.base.template, Version: s.base.version}
	if p.Version == 0 && s.base.configuration == "" {
		p.Image = s.base.image // a version with this image may not exist yet
	}
	text, _ := json.Marshal(p) // marshalling strings and a number cannot fail
	return nodegroup.Revision{
		ID: s.revisionID(), Name: s.revisionName(), Image: s.base.image, Kubernetes: images[s.base.image].kubernetes, Spec: string(text),
	}
}
