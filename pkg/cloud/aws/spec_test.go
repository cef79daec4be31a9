package aws

import (
	"errors"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestTargetIsParsedAsVersionOrImage(t *testing.T) {
	cases := map[string]target{
		"":         {},
		"7":        {version: "7"},
		"007":      {version: "7"},
		"$Latest":  {version: latestVersion},
		"latest":   {version: latestVersion},
		"LATEST":   {version: latestVersion},
		"$Default": {version: defaultVersion},
		"default":  {version: defaultVersion},
		"ami-0123": {image: "ami-0123"},
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			if got, err := parseTarget(text); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestInvalidTargetsAreRejected(t *testing.T) {
	for _, text := range []string{"0", "-1", "$7", "v1.33", "1.33", "ami-", "ami-0/1", "resolve:ssm:/x", "99999999999999999999"} {
		var no refusedError
		if _, err := parseTarget(text); !errors.As(err, &no) || !strings.Contains(err.Error(), text) {
			t.Errorf("--to=%s: got %v, want a refusal that names it", text, err)
		}
	}
}

func TestWantedRevisionComesFromTargetOrTemplate(t *testing.T) {
	written := map[versionKey]string{{"lt-0a", 6}: "ami-6", {"lt-0a", 7}: "ami-7", {"lt-0a", 8}: "ami-8", {"lt-0b", 3}: "ami-b3"}
	moving := awsAnswers{written: written, templates: []et.LaunchTemplate{numbers("lt-0a", 6, 8)}}
	arm := at.LaunchTemplateOverrides{InstanceType: sdk.String("m6g.large"), LaunchTemplateSpecification: template("lt-0b", "3")}
	cases := map[string]struct {
		group           *at.AutoScalingGroup
		to              string
		wanted, pointed string // ID and name
	}{
		"template":             {group: newGroup(), wanted: "lt-0a:7:ami-7 workers:7", pointed: "lt-0a:7:ami-7 workers:7"},
		"launch configuration": {group: newGroup(configured("v2")), wanted: "lc:v2 v2", pointed: "lc:v2 v2"},
		"$Latest":              {group: newGroup(templated("$Latest")), wanted: "lt-0a:8:ami-8 workers:8", pointed: "lt-0a:8:ami-8 workers:8"},
		"overrides count":      {group: newGroup(mixed("7", arm)), wanted: "lt-0a:7:ami-7,m6g.large=lt-0b:3:ami-b3 workers:7", pointed: "lt-0a:7:ami-7,m6g.large=lt-0b:3:ami-b3 workers:7"},
		"to a number":          {group: newGroup(), to: "8", wanted: "lt-0a:8:ami-8 workers:8", pointed: "lt-0a:7:ami-7 workers:7"},
		"to the default":       {group: newGroup(), to: "$Default", wanted: "lt-0a:6:ami-6 workers:6", pointed: "lt-0a:7:ami-7 workers:7"},
		"to the number it has": {group: newGroup(), to: "7", wanted: "lt-0a:7:ami-7 workers:7", pointed: "lt-0a:7:ami-7 workers:7"},
		"to an image":          {group: newGroup(), to: "ami-9", wanted: "lt-0a@ami-9 workers@ami-9", pointed: "lt-0a@ami-7 workers@ami-7"},
		"to the image it has":  {group: newGroup(), to: "ami-7", wanted: "lt-0a@ami-7 workers@ami-7", pointed: "lt-0a@ami-7 workers@ami-7"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := describe(t, c.group, moving, c.to)
			if got := g.Wanted.ID + " " + g.Wanted.Name; got != c.wanted {
				t.Errorf("wanted %s, want %s", got, c.wanted)
			}
			if got := g.Pointed.ID + " " + g.Pointed.Name; got != c.pointed {
				t.Errorf("pointed %s, want %s", got, c.pointed)
			}
			if want := map[string]string{"$Latest": "workers:$Latest"}[name]; g.Follows != want {
				t.Errorf("follows %q, want %q", g.Follows, want)
			}
		})
	}
}

func TestTargetsThatGroupCannotUseAreRejected(t *testing.T) {
	own := at.LaunchTemplateOverrides{InstanceType: sdk.String("m6g.large"), LaunchTemplateSpecification: template("lt-0b", "3")}
	cases := map[string]struct {
		group *at.AutoScalingGroup
		to    string
		says  string
	}{
		"image on a launch configuration":   {newGroup(configured("v2")), "ami-1", "launch configuration v2"},
		"version on a launch configuration": {newGroup(configured("v2")), "latest", "launch configuration v2"},
		"image on several templates":        {newGroup(mixed("7", own)), "ami-1", "one image"},
		"image on overridden images": {
			newGroup(mixed("7", at.LaunchTemplateOverrides{InstanceType: sdk.String("m6g.large"), ImageId: sdk.String("ami-o")})), "ami-1", "one image",
		},
		"group without a template":     {newGroup(func(g *at.AutoScalingGroup) { g.LaunchTemplate = nil }), "", "no launch template"},
		"group with an odd version":    {newGroup(templated("newest")), "", `no version "newest"`},
		"template that nobody read of": {newGroup(templated("$Latest")), "", `no version "$Latest"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := tryDescribe(c.group, awsAnswers{}, c.to)
			var no refusedError
			if !errors.As(err, &no) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a refusal that says %q", err, c.says)
			}
		})
	}
}

func TestGroupsThatFollowLatestTemplateVersionAreFound(t *testing.T) {
	cases := map[string]struct {
		group *at.AutoScalingGroup
		want  bool
	}{
		"$Latest of the template":            {newGroup(templated("$Latest")), true},
		"$Latest in a mixed policy":          {newGroup(mixed("$Latest")), true},
		"$Latest for one type":               {newGroup(mixed("7", at.LaunchTemplateOverrides{LaunchTemplateSpecification: template("lt-0a", "$Latest")})), true},
		"$Default does not move by itself":   {newGroup(templated("$Default")), false},
		"a number":                           {newGroup(), false},
		"$Latest of another template":        {newGroup(func(g *at.AutoScalingGroup) { g.LaunchTemplate = template("lt-0b", "$Latest") }), false},
		"launch configuration":               {newGroup(configured("v1")), false},
		"a group that launches from nothing": {newGroup(func(g *at.AutoScalingGroup) { g.LaunchTemplate = nil }), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := usesLatestVersion(c.group, "lt-0a"); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTemplatesWithLatestOrDefaultVersionAreRead(t *testing.T) {
	arm := at.LaunchTemplateOverrides{InstanceType: sdk.String("m6g.large"), LaunchTemplateSpecification: template("lt-0b", "$Latest")}
	cases := map[string]struct {
		group *at.AutoScalingGroup
		wish  target
		want  string
	}{
		"numbers need no reading":    {newGroup(), target{}, ""},
		"a number that is asked for": {newGroup(), target{version: "6"}, ""},
		"$Latest":                    {newGroup(templated("$Latest")), target{}, "lt-0a"},
		"$Latest that is asked for":  {newGroup(), target{version: latestVersion}, "lt-0a"},
		"each template once":         {newGroup(mixed("$Default", arm, arm)), target{}, "lt-0a lt-0b"},
		"launch configuration":       {newGroup(configured("v1")), target{version: latestVersion}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := launchSourceOf(c.group)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.templatesByAlias(c.wish), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
