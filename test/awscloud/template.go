package awscloud

import (
	"cmp"
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// image is a registered AMI.
type image struct {
	id, kubelet, arch string
	created           time.Time
}

// template is an EC2 launch template. Its versions are numbered from 1 and never change.
type template struct {
	id, name       string
	created        time.Time
	defaultVersion int
	versions       []templateVersion
}

type templateVersion struct {
	number      int
	born        int // order of creation among all versions of all templates
	created     time.Time
	description string
	data        templateData
}

// templateData is the launch template data that the stand-in models.
type templateData struct {
	image, kind, userData, keyName string // user data is base64, as in the request
	securityGroups                 []string
	tags                           []tagSet
}

type tagSet struct {
	resource string
	tags     []tag
}

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

// withDefaultsFrom returns d with the values of base for everything that d does not set (CreateLaunchTemplateVersion with
// SourceVersion).
func (d templateData) withDefaultsFrom(base templateData) templateData {
	out := templateData{
		image:    cmp.Or(d.image, base.image),
		kind:     cmp.Or(d.kind, base.kind),
		userData: cmp.Or(d.userData, base.userData),
		keyName:  cmp.Or(d.keyName, base.keyName),

		securityGroups: base.securityGroups,
		tags:           base.tags,
	}
	if d.securityGroups != nil {
		out.securityGroups = d.securityGroups
	}
	if d.tags != nil {
		out.tags = d.tags
	}
	return out
}

// findVersion returns the version that text names: a number, $Latest, $Default, or "", which means $Default. ok is false if the
// template has no such version.
func (t *template) findVersion(text string) (v templateVersion, ok bool) {
	n := 0
	switch text {
	case "$Latest":
		n = len(t.versions)
	case "$Default", "":
		n = t.defaultVersion
	default:
		n, _ = strconv.Atoi(text) // text that is not a number is no version
	}
	if n < 1 || n > len(t.versions) {
		return templateVersion{}, false
	}
	return t.versions[n-1], true
}

// addVersion appends a version.
func (t *template) addVersion(d templateData, description string, born int, now time.Time) templateVersion {
	v := templateVersion{number: len(t.versions) + 1, born: born, created: now, description: description, data: d}
	t.versions = append(t.versions, v)
	return v
}

// findTemplate returns a template by id or, if id is "", by name. ok is false if there is none.
func (r *region) findTemplate(id, name string) (t *template, ok bool) {
	if t, ok := r.templates[id]; ok || id != "" {
		return t, ok
	}
	for _, t := range r.templates {
		if t.name == name {
			return t, true
		}
	}
	return nil, false
}

// ssmAlias is the prefix of an image id that is read from an SSM parameter at each launch.
const ssmAlias = "resolve:ssm:"

// resolveImage returns the image id in the parameter that a resolve:ssm: alias names. It returns any other id unchanged.
func (r *region) resolveImage(id string) (string, error) {
	name, alias := strings.CutPrefix(id, ssmAlias)
	if !alias {
		return id, nil
	}
	p, ok := r.parameters[name]
	if !ok {
		return "", clientError("InvalidParameterValue", "Unable to resolve alias %s: the parameter does not exist.", id)
	}
	return p.value, nil
}

// launchSpec describes the instances that a group launches, after its template, configuration or policy was resolved.
type launchSpec struct {
	template      at.LaunchTemplateSpecification // the template's id, name and version number; empty for a group with a launch configuration
	config        string
	born          int // age of the template version; a launch configuration is older than any
	image         string
	imageOverride bool // the image is not the template's; the group shows it in Instance.ImageId
	kind          string
	weight        string // in a weighted group; empty otherwise
	spot          bool
	labels        map[string]string
}

// capacity returns the number of units of an instance with the spec.
func (s launchSpec) capacity() int {
	if n, err := strconv.Atoi(s.weight); err == nil {
		return n
	}
	return 1
}

// resolveLaunchSpec returns the spec of the next instance of the group. Its error is the message of the failed scaling
// activity.
func (r *region) resolveLaunchSpec(g *group) (launchSpec, error) {
	if g.config != "" {
		c := r.configs[g.config]
		s := launchSpec{config: g.config, image: aws.ToString(c.ImageId), kind: aws.ToString(c.InstanceType)}
		return r.completeImage(s, aws.ToString(c.UserData))
	}
	if g.mixed == nil {
		return r.completeFromTemplate(*g.template, launchSpec{})
	}
	base := *g.mixed.LaunchTemplate.LaunchTemplateSpecification
	s := launchSpec{spot: isAllSpot(g.mixed.InstancesDistribution)}
	// The first override has the highest priority, and the stand-in always has capacity of every type.
	for _, o := range g.mixed.LaunchTemplate.Overrides[:min(1, len(g.mixed.LaunchTemplate.Overrides))] {
		if o.LaunchTemplateSpecification != nil {
			base = *o.LaunchTemplateSpecification
		}
		s.kind, s.weight = aws.ToString(o.InstanceType), aws.ToString(o.WeightedCapacity)
		s.image, s.imageOverride = aws.ToString(o.ImageId), o.ImageId != nil
	}
	return r.completeFromTemplate(base, s)
}

// completeFromTemplate adds the values of the template version ref to s.
func (r *region) completeFromTemplate(ref at.LaunchTemplateSpecification, s launchSpec) (launchSpec, error) {
	t, v, err := r.templateVersion(ref)
	if err != nil {
		return launchSpec{}, err
	}
	s.template = at.LaunchTemplateSpecification{
		LaunchTemplateId:   aws.String(t.id),
		LaunchTemplateName: aws.String(t.name),
		Version:            aws.String(strconv.Itoa(v.number)),
	}
	s.born = v.born
	s.kind = cmp.Or(s.kind, v.data.kind)
	s.image = cmp.Or(s.image, v.data.image)
	return r.completeImage(s, v.data.userData)
}

func (r *region) completeImage(s launchSpec, userData string) (launchSpec, error) {
	id, err := r.resolveImage(s.image)
	if err != nil {
		return launchSpec{}, err
	}
	if _, ok := r.images[id]; !ok {
		return launchSpec{}, clientError("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	s.image, s.labels = id, nodeLabels(userData)
	return s, nil
}

// templateVersion returns the version to which a launch template specification refers.
func (r *region) templateVersion(ref at.LaunchTemplateSpecification) (*template, templateVersion, error) {
	id, name := aws.ToString(ref.LaunchTemplateId), aws.ToString(ref.LaunchTemplateName)
	if (id == "") == (name == "") {
		return nil, templateVersion{}, validationError("Valid requests must contain either LaunchTemplateId or LaunchTemplateName")
	}
	t, ok := r.findTemplate(id, name)
	if !ok {
		return nil, templateVersion{}, validationError("You must use a valid fully-formed launch template. %s", unknownTemplateError(id, name).Message)
	}
	v, ok := t.findVersion(aws.ToString(ref.Version))
	if !ok {
		return nil, templateVersion{}, validationError("You must use a valid fully-formed launch template. %s", unknownVersionError(t, aws.ToString(ref.Version)).Message)
	}
	return t, v, nil
}

// labelFlag matches the --node-labels flag of the kubelet in user data. It matches both in a nodeadm NodeConfig and in the
// arguments of the older bootstrap script.
var labelFlag = regexp.MustCompile(`--node-labels=([^\s"'\\]+)`)

// nodeLabels returns the node labels in base64 user data, nil if the user data cannot be decoded.
func nodeLabels(userData string) map[string]string {
	text, err := base64.StdEncoding.DecodeString(userData)
	if err != nil {
		return nil
	}
	labels := map[string]string{}
	for _, m := range labelFlag.FindAllStringSubmatch(string(text), -1) {
		for _, pair := range strings.Split(m[1], ",") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				labels[k] = v
			}
		}
	}
	return labels
}
