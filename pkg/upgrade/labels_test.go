package upgrade_test

import (
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Before an upgrade a current machine whose node lacks a label is outdated. During the upgrade that holds only for
// machines that lacked it when it began. Otherwise new nodes would be replaced without end (EKS E27, E33).
func TestMissingLabelMakesNodeOutdatedOnlyFromTheStart(t *testing.T) {
	group := nodegroup.Group{Can: nodegroup.FullControl()}
	group.RequireLabels(map[string]string{"image": "ami-2"})
	lacking := func(name string) nodegroup.Member {
		m := current(name)
		m.Node.Labels["image"] = "ami-1"
		return m
	}
	outlived := lacking("cur-a-1")
	outlived.Instance = nodegroup.Instance{}
	cases := map[string]struct {
		member   nodegroup.Member
		record   record.Record
		outdated bool
	}{
		"with the label":                 {current("cur-a-1"), record.Record{}, false},
		"without it, before an upgrade":  {lacking("cur-a-1"), record.Record{}, true},
		"without it since the beginning": {lacking("cur-a-1"), record.Record{Run: "r1", Unlabelled: []string{"i-cur-a-1"}}, true},
		"without it, and new":            {lacking("new-a-1"), record.Record{Run: "r1", Unlabelled: []string{"i-cur-a-1"}}, false},
		"without it, its node gone":      {booting(current("cur-a-1")), record.Record{Run: "r1", Unlabelled: []string{"i-cur-a-1"}}, true},
		"labelled meanwhile":             {current("cur-a-1"), record.Record{Run: "r1", Unlabelled: []string{"i-cur-a-1"}}, false},
		"an instance without a node":     {booting(current("cur-a-1")), record.Record{}, false},
		"a node that outlives its machine": {outlived, record.Record{
			Run: "r1", Unlabelled: []string{"i-cur-a-1"}, Nodes: map[string]record.NodeRecord{"cur-a-1": {Instance: "i-cur-a-1"}},
		}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			members := []nodegroup.Member{c.member}
			if found := upgrade.MarkOutdatedByLabels(&group, members, &c.record); members[0].Outdated != c.outdated || (found == 1) != c.outdated {
				t.Errorf("outdated %t, counted %d, want %t", members[0].Outdated, found, c.outdated)
			}
		})
	}
}

// A rollback goes back to nodes that need not have the newer revision's labels.
func TestRollbackRequiresNoLabels(t *testing.T) {
	record := record.Record{Run: "r1", Unlabelled: []string{"i-cur-a-1"}, Request: record.Request{Current: map[string]string{"image": "ami-2"}}}
	back := upgrade.AsRollback(&record, nodegroup.Revision{ID: "1"}, start.Add(time.Hour))
	group := nodegroup.Group{Can: nodegroup.FullControl()}
	group.RequireLabels(back.Request.Current)
	members := []nodegroup.Member{unlabelled(current("cur-a-1")), booting(current("cur-a-1"))}
	if upgrade.MarkOutdatedByLabels(&group, members, &back) > 0 || members[0].Outdated || members[1].Outdated {
		t.Errorf("a machine of the older revision is outdated for want of a label: labels %v", back.Request.Current)
	}
}

// A record of an older version does not name its provider.
func TestOlderRecordWithLabelsAndNoSizeIsCloudless(t *testing.T) {
	labels := record.Request{Current: map[string]string{"image": "ami-2"}}
	cases := map[string]struct {
		record record.Record
		want   bool
	}{
		"manual":              {record.Record{Provider: "manual", Request: labels}, true},
		"a cloud with labels": {record.Record{Provider: "aws", Request: labels}, false},
		"older, of labels":    {record.Record{Request: labels}, true},
		"older, of a cloud":   {record.Record{Request: labels, Sizes: nodegroup.Sizes{Desired: 3}}, false},
		"older, no labels":    {record.Record{}, false},
	}
	for name, c := range cases {
		if got := c.record.IsCloudless(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
