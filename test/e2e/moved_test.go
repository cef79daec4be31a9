package e2e

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// betweenImage is the image of the upgrade's first target, between the old and the newest image.
const betweenImage = "ami-0b0b0b0b0b0b0b0b0"

// replacedCount matches the numbers in a progress line.
var replacedCount = regexp.MustCompile(`\((\d+) of (\d+) replaced\)`)

// testTargetMoves changes the template's default version while nodes are replaced. The upgrade must stop. With --replan it
// continues to the newer target, and its total includes the nodes that were launched for the first target.
func testTargetMoves(t *testing.T, shared *fixture.Fixture) {
	const nodes = 5
	var template string
	s := openCase(t, shared, fixture.Group{Name: "moving", Zones: []string{zoneA}, Counts: []int{nodes}, Suspended: []string{rebalance}, More: func(spec *awscloud.GroupSpec) {
		labels := "--node-labels=pool=moving,image="
		shared.Cloud.AddImage(betweenImage, "v1.36.0", "x86_64")
		template = shared.Cloud.AddTemplate("moving-default",
			awscloud.TemplateVersion{Image: fixture.OldImage, InstanceType: "m7i.large", UserData: labels + fixture.OldImage},
			awscloud.TemplateVersion{Image: betweenImage, InstanceType: "m7i.large", UserData: labels + betweenImage},
			awscloud.TemplateVersion{Image: fixture.NewImage, InstanceType: "m7i.large", UserData: labels + fixture.NewImage})
		setDefaultVersion(t, shared, template, 2)
		spec.Template = awscloud.TemplateRef{ID: template, Version: "$Default"}
	}})
	first := s.start()
	first.awaitEvent("two replaced nodes", func(e event) bool { replaced, _ := parseReplaced(e); return replaced == 2 })
	setDefaultVersion(t, shared, template, 3)
	first.awaitExit(5)
	if plan := runKubectl(t, s.Fixture, "nodeupgrade", s.group, "--dry-run", "--replan"); plan.Code != 0 {
		t.Errorf("the plan of the rest ended with %d: %s%s", plan.Code, plan.Stdout, plan.Stderr)
	}

	second := s.runUpgrade(0, "--replan")
	s.checkAllReplaced() // pods that moved to nodes of the earlier target move again
	last := 0
	for from := 0; ; {
		found, next, ok, _ := second.log.find(from, func(e event) bool { _, total := parseReplaced(e); return total > 0 })
		if !ok {
			break
		}
		replaced, total := parseReplaced(found)
		if replaced > total || total <= nodes {
			t.Errorf("it counts %d of %d replaced, want a total above %d, which includes the nodes replaced before", replaced, total, nodes)
		}
		last, from = total-replaced, next
	}
	if last != 0 {
		t.Errorf("in the last count %d nodes are still to be replaced", last)
	}
}

func setDefaultVersion(t *testing.T, shared *fixture.Fixture, template string, version int) {
	t.Helper()
	if err := shared.Cloud.SetDefaultVersion(template, version); err != nil {
		t.Fatal(err)
	}
}

// parseReplaced returns the event's numbers of replaced nodes and of all nodes. It returns 0 if the event has no numbers.
func parseReplaced(e event) (replaced, total int) {
	if found := replacedCount.FindStringSubmatch(e.Text); found != nil {
		replaced, _ = strconv.Atoi(found[1])
		total, _ = strconv.Atoi(found[2])
	}
	return replaced, total
}
