package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// someLive returns an upgrade with nodes in each state. Two of the nodes wait.
func someLive() *LiveView {
	s := runningStatus()
	l := &LiveView{
		Moment: Moment{At: now, Status: s.Status, Blocked: s.Blocked},
		Record: &record.Record{Target: nodegroup.Revision{Name: "workers:7"}, Started: ago(26 * time.Minute), Nodes: map[string]record.NodeRecord{}},
		Impacts: []record.WorkloadImpact{
			{Name: "shop/Deployment/web", Impact: record.Impact{Evictions: 12}}, {Name: "shop/Deployment/api", Impact: record.Impact{Evictions: 3, Lacks: 1}},
		},
		MaxPods: map[string]int{"ip-10-0-1-7": 8}, Hint: "Ctrl-C stops cleanly",
	}
	st := &l.Status
	st.Total, st.Replaced, st.GroupCounts = 12, 7, &record.GroupCounts{Desired: 18, Max: 18, New: 6, NewReady: 5}
	st.Nodes = []record.NodeStatus{
		{Name: "ip-10-0-1-7", Zone: "us-east-1a", State: record.NodeDraining, Batch: 5, Pods: 3, Staying: 4},
		{Name: "ip-10-0-1-8", Zone: "us-east-1a", State: record.NodeFenced},
		{Name: "ip-10-0-1-9", State: record.NodeQuarantined, Batch: 2, Pods: 1},
		{Name: "ip-10-0-2-48", Zone: "us-east-1b", State: record.NodeEmpty, Batch: 6},
		{Name: "ip-10-0-2-50", Zone: "us-east-1b", State: record.NodeRemoving, Batch: 4, Silent: "its kubelet has been silent for 4m: \x1b[2Jreboot it"},
	}
	l.Record.Nodes["ip-10-0-1-7"] = record.NodeRecord{Began: ago(41 * time.Second)}
	l.Record.Nodes["ip-10-0-1-9"] = record.NodeRecord{Reason: "db/pg-0: budget never opens"}
	l.Record.Nodes["ip-10-0-2-48"] = record.NodeRecord{Began: ago(2 * time.Minute), EmptyAt: ago(52 * time.Second)}
	l.Record.Nodes["ip-10-0-2-50"] = record.NodeRecord{Began: ago(5 * time.Minute), Terminated: ago(4 * time.Minute)}
	return l
}

// manyLive returns an upgrade that drains forty nodes with long names.
func manyLive() *LiveView {
	l := someLive()
	l.Status.Nodes, l.Blocked = nil, nil
	for i := range 40 {
		name := fmt.Sprintf("ip-10-0-0-%02d.eu-central-1.compute.internal", i)
		l.Status.Nodes = append(l.Status.Nodes, record.NodeStatus{Name: name, Zone: fmt.Sprintf("eu-central-1%c", 'a'+i%3), State: record.NodeDraining, Batch: 1, Pods: i})
		l.Record.Nodes[name] = record.NodeRecord{Began: ago(time.Duration(40-i) * time.Second)}
		l.Blocked = append(l.Blocked, drain.Blocked{Node: name, Obstacle: drain.Obstacle{Kind: drain.BudgetSpent, Budget: types.NamespacedName{Namespace: "shop", Name: "cart"}, Need: 3, Have: 3}, Since: ago(time.Minute)})
	}
	l.TimeLeft = runningStatus().TimeLeft
	return l
}

func TestLiveViewFitsWidthAndHeight(t *testing.T) {
	begun := &LiveView{Hint: "Ctrl-C stops cleanly", Moment: Moment{At: now, Status: record.Status{Group: "workers", Phase: record.PhaseSetup, Total: 3, Outdated: 3, Waiting: "6 new nodes, 0 ready"}}, Record: &record.Record{Started: now}}
	begun.TimeLeft.RemainingUnknown = "no right"
	cases := map[string]*LiveView{"some": someLive(), "many": manyLive(), "begun": begun, "empty": {Record: &record.Record{}}}
	for name, l := range cases {
		for _, size := range [][2]int{{80, 23}, {100, 40}, {120, 14}, {200, 60}, {40, 9}, {10, 5}} {
			t.Run(fmt.Sprintf("%s/%dx%d", name, size[0], size[1]), func(t *testing.T) {
				lines := LiveLines(l, Options{Width: size[0]}, size[1])
				if len(lines) > size[1] {
					t.Errorf("%d lines", len(lines))
				}
				for _, line := range lines {
					if displayWidth(line) >= size[0] || strings.ContainsAny(line, "\x1b\n") {
						t.Errorf("%d cells: %q", displayWidth(line), line)
					}
				}
				if size[0] == 80 {
					compare(t, filepath.Join("testdata", "screens", "live-"+name+".golden"), []byte(strings.Join(lines, "\n")+"\n"))
				}
			})
		}
	}
}

// The view of an upgrade that another process runs is never higher than the terminal, however many leftovers
// there are.
func TestViewOfUpgradeRunElsewhereFitsTerminalHeight(t *testing.T) {
	status := runningStatus()
	status.Holder, status.Unread = "ann@laptop", "no credentials"
	for range 30 {
		status.Leftovers = append(status.Leftovers, Leftover{What: "taint on node ip-10-0-1-7", Remedy: "kubectl nodeupgrade clean"})
	}
	for _, height := range []int{0, 1, 5, 7, 14, 60} {
		for name, l := range map[string]*LiveView{"some": someLive(), "many": manyLive()} {
			lines := FollowLines(l, status, Options{Width: 80}, height)
			if len(lines) > height {
				t.Errorf("%s: %d lines for a height of %d", name, len(lines), height)
			}
			if height > 7 && !slices.Contains(lines, " run by ann@laptop") {
				t.Errorf("%s: height %d: does not show who runs it:\n%s", name, height, strings.Join(lines, "\n"))
			}
		}
	}
}

// The view never says that workloads have their pods if one workload does not recover or before the first
// eviction.
func TestLiveViewShowsWorkloadsThatDoNotRecover(t *testing.T) {
	web := record.WorkloadImpact{Name: "shop/Deployment/web", Impact: record.Impact{Evictions: 2}}
	lacking, out := web, web
	lacking.Lacks, out.Out = 1, true
	cases := map[string]struct {
		impacts   []record.WorkloadImpact
		unhealthy []record.Unhealthy
		want      string
	}{
		"nothing evicted":              {nil, nil, " 0 evictions"},
		"recovered":                    {[]record.WorkloadImpact{web}, nil, " 2 evictions · each evicted workload has its ready pods"},
		"fewer":                        {[]record.WorkloadImpact{lacking}, nil, " 2 evictions · 1 workload with fewer ready pods than before"},
		"none ready":                   {[]record.WorkloadImpact{out}, nil, " 2 evictions · without a ready pod: shop/Deployment/web"},
		"another is not recovering":    {[]record.WorkloadImpact{web}, []record.Unhealthy{{Name: "kube-system/DaemonSet/cni"}}, " 2 evictions · not recovering: kube-system/DaemonSet/cni"},
		"not recovering, no evictions": {nil, []record.Unhealthy{{Name: "kube-system/DaemonSet/cni"}}, " 0 evictions · not recovering: kube-system/DaemonSet/cni"},
	}
	for name, c := range cases {
		l := LiveView{Impacts: c.impacts, Moment: Moment{Status: record.Status{Unhealthy: c.unhealthy}}}
		if got := l.describeImpacts(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestViewOfServicesUpgradeCountsNoEvictions checks that the view names the service that carries the upgrade out, and does not show 0 for
// its evictions, which are not known.
func TestViewOfServicesUpgradeCountsNoEvictions(t *testing.T) {
	l := &LiveView{Hint: "Ctrl-C ends this view", Record: &record.Record{}, Moment: Moment{Status: record.Status{Manager: "Karpenter"}}}
	text := strings.Join(FollowLines(l, &UpgradeStatus{Follows: "Karpenter"}, Options{Width: 80}, 20), "\n")
	if strings.Contains(text, "0 evictions") || !strings.Contains(text, "\n evictions by Karpenter are not counted · Ctrl-C ends this view\n run by Karpenter") {
		t.Errorf("the view is\n%s", text)
	}
	l.Status.Unhealthy = []record.Unhealthy{{Name: "shop/Deployment/web"}}
	if got := l.describeImpacts(); got != " evictions by Karpenter are not counted · not recovering: shop/Deployment/web · Ctrl-C ends this view" {
		t.Errorf("got %q", got)
	}
}

// The view keeps the largest number of pods of each node, and forgets the number when the node is gone.
func TestLiveViewKeepsLargestPodCountOfNodes(t *testing.T) {
	var l LiveView
	see := func(nodes ...record.NodeStatus) {
		l.Update(Moment{Status: record.Status{Nodes: nodes}}, &record.Record{}, nil)
	}
	node := func(pods int) record.NodeStatus {
		return record.NodeStatus{Name: "n1", State: record.NodeDraining, Batch: 1, Pods: pods}
	}
	see(node(8))
	see(node(3))
	if rows := l.listRows(); len(rows) != 1 || rows[0].pods != "3/8" {
		t.Errorf("rows %+v", rows)
	}
	see()
	see(node(2))
	if rows := l.listRows(); len(rows) != 1 || rows[0].pods != "2/2" {
		t.Errorf("after the node returned: %+v", rows)
	}
}
