package awscloud

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unknownTemplateError returns EC2's error for an unknown template.
func unknownTemplateError(id, name string) *apiError {
	if id != "" {
		return clientError("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	}
	return clientError("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

func unknownVersionError(t *template, version string) *apiError {
	return clientError("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", version, t.id)
}

type ec2Template struct {
	ID             string `xml:"launchTemplateId"`
	Name           string `xml:"launchTemplateName"`
	CreateTime     string `xml:"createTime"`
	CreatedBy      string `xml:"createdBy"`
	DefaultVersion int    `xml:"defaultVersionNumber"`
	LatestVersion  int    `xml:"latestVersionNumber"`
}

type ec2Templates struct {
	XMLName   struct{}      `xml:"launchTemplates"`
	Templates []ec2Template `xml:"item"`
}

type ec2TemplateVersion struct {
	ID          string          `xml:"launchTemplateId"`
	Name        string          `xml:"launchTemplateName"`
	Number      int             `xml:"versionNumber"`
	Description string          `xml:"versionDescription,omitempty"`
	CreateTime  string          `xml:"createTime"`
	CreatedBy   string          `xml:"createdBy"`
	Default     bool            `xml:"defaultVersion"`
	Data        ec2TemplateData `xml:"launchTemplateData"`
}

type ec2TemplateData struct {
	ImageID        string      `xml:"imageId,omitempty"`
	InstanceType   string      `xml:"instanceType,omitempty"`
	UserData       string      `xml:"userData,omitempty"`
	KeyName        string      `xml:"keyName,omitempty"`
	SecurityGroups []string    `xml:"securityGroupIdSet>item"`
	Tags           []ec2TagSet `xml:"tagSpecificationSet>item"`
}

type ec2TagSet struct {
	Resource string `xml:"resourceType"`
	Tags     []tag  `xml:"tagSet>item"`
}

type ec2TemplateVersions struct {
	XMLName  struct{}             `xml:"launchTemplateVersionSet"`
	Versions []ec2TemplateVersion `xml:"item"`
}

type ec2CreatedVersion struct {
	XMLName struct{} `xml:"launchTemplateVersion"`
	ec2TemplateVersion
}

func (r *region) describeTemplates(form ec2Form, _ time.Time) (ec2Answer, error) {
	ids, names := form.list("LaunchTemplateId"), form.list("LaunchTemplateName")
	for _, id := range ids {
		if _, ok := r.templates[id]; !ok {
			return ec2Answer{}, unknownTemplateError(id, "")
		}
	}
	for _, name := range names {
		if _, ok := r.findTemplate("", name); !ok {
			return ec2Answer{}, unknownTemplateError("", name)
		}
	}
	out := []ec2Template{}
	for _, id := range sortedKeys(r.templates) {
		t := r.templates[id]
		if len(ids)+len(names) > 0 && !slices.Contains(ids, t.id) && !slices.Contains(names, t.name) {
			continue
		}
		ok, err := matchesFilters(form.filters(), map[string]string{"launch-template-name": t.name}, nil)
		if err != nil {
			return ec2Answer{}, err
		}
		if ok {
			out = append(out, ec2Template{t.id, t.name, t.created.UTC().Format(queryTime), r.callerARN(), t.defaultVersion, len(t.versions)})
		}
	}
	out, next, err := ec2Page(out, form, 1, 200)
	return ec2Answer{Content: ec2Templates{Templates: out}, NextToken: next}, err
}

func (r *region) callerARN() string { return "arn:aws:iam::" + r.opts.Account + ":user/upgrader" }

func (r *region) describeTemplateVersions(form ec2Form, _ time.Time) (ec2Answer, error) {
	if len(form.filters()) > 0 {
		return ec2Answer{}, notModelledError("filters of DescribeLaunchTemplateVersions")
	}
	out := []ec2TemplateVersion{}
	add := func(t *template, versions []templateVersion) error {
		for _, v := range versions {
			d, err := r.describeVersion(t, v, form["ResolveAlias"] == "true")
			if err != nil {
				return err
			}
			out = append(out, d)
		}
		return nil
	}
	templates, err := r.requestedTemplates(form)
	if err != nil {
		return ec2Answer{}, err
	}
	for _, t := range templates {
		versions, err := requestedVersions(t, form)
		if err == nil {
			err = add(t, versions)
		}
		if err != nil {
			return ec2Answer{}, err
		}
	}
	out, next, err := ec2Page(out, form, 1, 200)
	return ec2Answer{Content: ec2TemplateVersions{Versions: out}, NextToken: next}, err
}

// requestedTemplates returns the template that a request names. For a request without id and name it returns all templates.
// Such a request may ask only for $Latest and $Default.
func (r *region) requestedTemplates(form ec2Form) ([]*template, error) {
	id, name := form["LaunchTemplateId"], form["LaunchTemplateName"]
	if id != "" && name != "" {
		return nil, clientError("InvalidParameterCombination", "Specify either the launch template ID or the launch template name, but not both.")
	}
	if id != "" || name != "" {
		t, ok := r.findTemplate(id, name)
		if !ok {
			return nil, unknownTemplateError(id, name)
		}
		return []*template{t}, nil
	}
	wanted := form.list("LaunchTemplateVersion")
	if len(wanted) == 0 || slices.ContainsFunc(wanted, func(v string) bool { return v != "$Latest" && v != "$Default" }) {
		return nil, clientError("MissingParameter", "Either the launch template ID or the launch template name must be specified.")
	}
	var out []*template
	for _, k := range sortedKeys(r.templates) {
		out = append(out, r.templates[k])
	}
	return out, nil
}

// requestedVersions returns the versions that a request names singly or by a range, each once, the newest first.
func requestedVersions(t *template, form ec2Form) ([]templateVersion, error) {
	wanted := map[int]bool{}
	for _, text := range form.list("LaunchTemplateVersion") {
		v, ok := t.findVersion(text)
		if !ok {
			return nil, unknownVersionError(t, text)
		}
		wanted[v.number] = true
	}
	least, err := form.number("MinVersion")
	if err != nil {
		return nil, err
	}
	most, err := form.number("MaxVersion")
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(slices.Clone(t.versions), func(v templateVersion) bool {
		return len(wanted) > 0 && !wanted[v.number] || v.number < least || most > 0 && v.number > most
	})
	slices.Reverse(out)
	return out, nil
}

func (r *region) describeVersion(t *template, v templateVersion, resolve bool) (ec2TemplateVersion, error) {
	d := v.data
	if resolve {
		var err error
		if d.image, err = r.resolveImage(d.image); err != nil {
			return ec2TemplateVersion{}, err
		}
	}
	out := ec2TemplateVersion{
		ID: t.id, Name: t.name, Number: v.number, Description: v.description, CreateTime: v.created.UTC().Format(queryTime),
		CreatedBy: r.callerARN(), Default: v.number == t.defaultVersion,
		Data: ec2TemplateData{ImageID: d.image, InstanceType: d.kind, UserData: d.userData, KeyName: d.keyName, SecurityGroups: d.securityGroups},
	}
	for _, s := range d.tags {
		out.Data.Tags = append(out.Data.Tags, ec2TagSet{s.resource, s.tags})
	}
	return out, nil
}

// versionCall is an earlier CreateLaunchTemplateVersion call. region.versions contains it by its client token.
type versionCall struct {
	params map[string]string
	out    ec2CreatedVersion
}

// createTemplateVersion adds a version. The data in the request override the data of the source version.
func (r *region) createTemplateVersion(form ec2Form, now time.Time) (ec2Answer, error) {
	if before, ok := r.versions[form["ClientToken"]]; ok {
		if fmt.Sprint(before.params) != fmt.Sprint(form) { // maps print with sorted keys
			return ec2Answer{}, clientError("IdempotentParameterMismatch", "The client token you have provided is associated with a different request.")
		}
		return ec2Answer{Content: before.out}, nil
	}
	templates, err := r.requestedTemplates(form)
	if err != nil {
		return ec2Answer{}, err
	}
	t := templates[0]
	data, err := readTemplateData(form)
	if err != nil {
		return ec2Answer{}, err
	}
	if source := form["SourceVersion"]; source != "" {
		v, ok := t.findVersion(source)
		if !ok {
			return ec2Answer{}, unknownVersionError(t, source)
		}
		data = data.withDefaultsFrom(v.data)
	}
	if form["DryRun"] == "true" {
		return ec2Answer{}, dryRunError()
	}
	v := t.addVersion(data, form["VersionDescription"], r.nextBirthOrder(), now)
	d, err := r.describeVersion(t, v, form["ResolveAlias"] == "true")
	created := ec2CreatedVersion{ec2TemplateVersion: d}
	if token := form["ClientToken"]; token != "" && err == nil {
		r.versions[token] = versionCall{form, created}
	}
	return ec2Answer{Content: created}, err
}

// readTemplateData decodes the parameters LaunchTemplateData.…. It refuses members that are not modelled.
func readTemplateData(form ec2Form) (templateData, error) {
	const prefix = "LaunchTemplateData."
	d := templateData{
		image: form[prefix+"ImageId"], kind: form[prefix+"InstanceType"], userData: form[prefix+"UserData"], keyName: form[prefix+"KeyName"],
		securityGroups: form.list(prefix + "SecurityGroupId"),
	}
	for i := 1; form[prefix+"TagSpecification."+strconv.Itoa(i)+".ResourceType"] != ""; i++ {
		p := prefix + "TagSpecification." + strconv.Itoa(i)
		s := tagSet{resource: form[p+".ResourceType"]}
		for j := 1; form[p+".Tag."+strconv.Itoa(j)+".Key"] != ""; j++ {
			s.tags = append(s.tags, tag{form[p+".Tag."+strconv.Itoa(j)+".Key"], form[p+".Tag."+strconv.Itoa(j)+".Value"]})
		}
		d.tags = append(d.tags, s)
	}
	for _, key := range sortedKeys(form) {
		name, ok := strings.CutPrefix(key, prefix)
		head, _, _ := strings.Cut(name, ".")
		switch head {
		case "ImageId", "InstanceType", "UserData", "KeyName", "SecurityGroupId", "TagSpecification":
			ok = false
		}
		if ok {
			return templateData{}, notModelledError("%s in launch template data", head)
		}
	}
	return d, nil
}
