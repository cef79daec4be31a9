package upgrade_test

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

// configMapLimit is how many bytes of data a ConfigMap may have (Kubernetes, pkg/apis/core/validation, MaxSecretSize).
const configMapLimit = 1 << 20

// largeGroup returns outdated nodes with long names, each with 20 pods behind load balancers.
func largeGroup(nodes int) []nodegroup.Member {
	members := make([]nodegroup.Member, nodes)
	for i := range members {
		name := fmt.Sprintf("ip-10-%03d-%03d-%03d.eu-central-1.compute.internal", i>>16, i>>8&255, i&255)
		m := &members[i]
		m.Outdated, m.Node = true, build.Node(name, "eu-central-1a")
		m.Node.UID = types.UID(fmt.Sprintf("%036d", i))
		m.Instance = nodegroup.Instance{ID: fmt.Sprintf("i-%017d", i), Zone: "eu-central-1a"}
		for p := range 20 {
			pod := build.Pod(fmt.Sprintf("checkout-service-%02d-%09d", p, i), build.In("storefront"), build.OwnedBy("ReplicaSet", fmt.Sprintf("checkout-service-%02d", p)))
			pod.Status.PodIP = fmt.Sprintf("10.%03d.%03d.%03d", 100+p, i>>8&255, i&255)
			m.Pods = append(m.Pods, pod)
		}
	}
	return members
}

// worstRecord returns the largest record that the upgrade can produce: kept nodes are on record, busy of them are in
// drain, and all texts and lists are as long as possible.
func worstRecord(r record.Request, members []nodegroup.Member, kept, busy int) record.Record {
	at := time.Date(2026, 11, 27, 12, 34, 56, 123456789, time.FixedZone("", 3600))
	rec := record.Record{
		Version: record.Version, Run: "r1", Request: r, Started: at, Phase: record.PhaseDrainBlue, PhaseBegan: at, Message: strings.Repeat("m", 1000),
		Nodes: map[string]record.NodeRecord{}, Workloads: map[string]record.WorkloadRecord{},
	}
	rec.Ledger = ledger.FromBooks(ledger.Books{Zones: map[string]ledger.Zone{"eu-central-1a": {Surge: r.Surge, Launched: r.Surge, Open: []ledger.Launch{{Serial: 1, N: r.Surge}}}}})
	for i := range members[:kept] {
		m := &members[i]
		n := record.NodeRecord{
			UID: m.Node.UID, Instance: m.Instance.ID, Zone: m.Zone(), State: record.NodeQuarantined, Batch: 12345, Began: at, Deadline: at, EmptyAt: at,
			Terminated: at, Shrink: true, Landed: true, Added: true,
		}
		if r.OnTimeout != record.Fail {
			n.Reason = strings.Repeat("r", 297)
		}
		if i < busy {
			var names []string
			for _, pod := range m.Pods {
				names = append(names, pod.Namespace+"/"+pod.Name)
				n.Addresses = append(n.Addresses, pod.Status.PodIP)
				w := drain.WorkloadOf(pod)
				rec.Workloads[w.Namespace+"/"+w.Kind+"/"+w.Name] = record.WorkloadRecord{
					Ready: 100000, Proven: true, Canary: m.Name(), Usual: duration(1234567891234),
					Impact: record.Impact{Evictions: 10000, Below: duration(1234567891234), None: duration(1234567891234), Lacks: 10000, Out: true},
				}
			}
			n.Blocked, n.BlockedMore = map[string]time.Time{}, len(names)-5
			sort.Slice(names, func(a, b int) bool { return len(names[a]) > len(names[b]) })
			for _, name := range names[:5] {
				n.Blocked[name] = at
			}
		}
		rec.Nodes[m.Name()] = n
	}
	return rec
}

func encodedSize(t *testing.T, record record.Record) int {
	t.Helper()
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// TestLargestAcceptedGroupFitsIntoRecord encodes the worst record of the largest group that is accepted, and of one that is refused.
func TestLargestAcceptedGroupFitsIntoRecord(t *testing.T) {
	sized := nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl()}
	blueGreen := func(batch int) record.Request {
		return record.Request{Group: "workers", Strategy: record.BlueGreen, Window: batch, BlueGreen: &record.BlueGreenRequest{Batch: batch}}
	}
	cases := map[string]struct {
		group   nodegroup.Group
		request func(nodes int) record.Request
		busy    func(nodes int) int
		least   int
	}{
		"blue-green, one by one":  {sized, func(int) record.Request { return blueGreen(1) }, func(int) int { return 20 }, 1000},
		"blue-green, all at once": {sized, blueGreen, func(nodes int) int { return nodes }, 500},
		"surge that skips": {sized, func(int) record.Request {
			return record.Request{Group: "workers", Strategy: record.Surge, Window: 100, Surge: 100, OnTimeout: record.Skip}
		}, func(int) int { return 100 }, 900},
		"without a cloud": {nodegroup.Group{Name: "workers", Provider: "manual"}, func(int) record.Request {
			return record.Request{Group: "workers", Strategy: record.Surge, Window: 10, OnTimeout: record.Force}
		}, func(int) int { return 20 }, 1000},
		"without a cloud or reasons": {nodegroup.Group{Name: "workers", Provider: "manual"}, func(int) record.Request {
			return record.Request{Group: "workers", Strategy: record.Surge, Window: 10, OnTimeout: record.Fail}
		}, func(int) int { return 20 }, 1500},
	}
	const most = 3000
	all := largeGroup(most)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			accepts := func(nodes int) bool {
				r := c.request(nodes)
				return r.CheckRecordSize(&c.group, all[:nodes]) == nil
			}
			refused := sort.Search(most, func(nodes int) bool { return !accepts(nodes) })
			if refused == most || refused <= c.least {
				t.Fatalf("%d nodes are the first to be refused, want more than %d", refused, c.least)
			}
			nodes := refused - 1
			if size := encodedSize(t, worstRecord(c.request(nodes), all, nodes, c.busy(nodes))); size > configMapLimit {
				t.Errorf("%d nodes are accepted, and the record has %d bytes", nodes, size)
			}
			nodes = refused * 8 / 5 // the estimate exceeds the real size by less than that
			if size := encodedSize(t, worstRecord(c.request(nodes), all, nodes, min(nodes, c.busy(nodes)))); size <= configMapLimit {
				t.Errorf("%d nodes are refused, and the record has only %d bytes", nodes, size)
			}
			r := c.request(refused)
			checkError(t, r.CheckRecordSize(&c.group, all[:refused]), fmt.Sprintf("recording an upgrade of %d nodes: the record may need", refused))
		})
	}
}

// TestLargeSurgeIsAccepted checks that nodes which leave the record do not count.
func TestLargeSurgeIsAccepted(t *testing.T) {
	r := record.Request{Group: "workers", Strategy: record.Surge, Window: 100, Surge: 100, OnTimeout: record.Fail}
	group := nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl()}
	if err := r.CheckRecordSize(&group, largeGroup(5000)); err != nil {
		t.Error(err)
	}
}

// TestRecordSizeCheckCountsLengthOfNodeNames checks that the size counts, not the number of nodes.
func TestRecordSizeCheckCountsLengthOfNodeNames(t *testing.T) {
	r := record.Request{Group: "workers", Strategy: record.BlueGreen, Window: 1, BlueGreen: &record.BlueGreenRequest{Batch: 1}}
	group, members := nodegroup.Group{Name: "workers", Provider: "aws", Can: nodegroup.FullControl()}, largeGroup(1000)
	if err := r.CheckRecordSize(&group, members); err != nil {
		t.Fatal(err)
	}
	for i := range members {
		members[i].Node.Name = strings.Repeat("n", 253-len(members[i].Node.Name)) + members[i].Node.Name
	}
	checkError(t, r.CheckRecordSize(&group, members), "recording an upgrade of 1000 nodes")
}

// TestNodeRecordWithManyBlockedPodsStaysSmall blocks 20 pods with long names on a node until its drain timeout is over.
func TestNodeRecordWithManyBlockedPodsStaysSmall(t *testing.T) {
	for _, long := range []int{8, 200} {
		var pods []*corev1.Pod
		for i := range 20 {
			pods = append(pods, build.Pod(fmt.Sprintf("web-%s-%02d", strings.Repeat("x", long), i)))
		}
		s := draining(t, pods...)
		s.Record.Request.OnTimeout = record.Skip
		s.budgets(build.Budget("web", build.Counts(20, 20, 20)))
		s.do(s.next().Actions...)
		s.pass(90 * time.Second)
		n := s.next().Record.Nodes["old-a-1"]
		if len(n.Blocked) != 5 || n.BlockedMore != 15 {
			t.Errorf("%d pods are named as blocked and %d counted, want 5 and 15", len(n.Blocked), n.BlockedMore)
		}
		s.pass(15 * time.Minute)
		s.next()
		s.next()
		n = s.Record.Nodes["old-a-1"]
		text, err := json.Marshal(n.Reason)
		if err != nil {
			t.Fatal(err)
		}
		if n.State != record.NodeQuarantined || len(text) > 300 || !strings.Contains(n.Reason, "web-x") {
			t.Errorf("in state %s for %d bytes: %s", n.State, len(text), n.Reason)
		}
		if !strings.Contains(n.Reason, "20 pods, such as pod shop/web-x") {
			t.Errorf("it does not count what it does not name: %s", n.Reason)
		}
		if n.Blocked != nil || n.BlockedMore != 0 {
			t.Errorf("it still has %d and %d blocked pods", len(n.Blocked), n.BlockedMore)
		}
	}
}

// TestNoNodeIsStartedWhileRecordIsFull checks that the upgrade waits for nodes in drain, and stops if there are none.
func TestNoNodeIsStartedWhileRecordIsFull(t *testing.T) {
	long := []string{strings.Repeat("x", 960<<10)}
	t.Run("with a node in drain", func(t *testing.T) {
		s := draining(t, build.Pod("web-0"))
		s.do(s.next().Actions...)
		s.add(old("old-a-2", build.Pod("web-1")))
		s.do(s.next().Actions...) // the fence
		s.Record.Request.MaxUnavailable, s.Record.Request.Window = 2, 2
		full := *s
		full.Record.Request.IgnoreUnready = long
		if step := full.next(); step.Record.Nodes["old-a-2"].State != "" || step.Record.Stopping != "" || step.Status.Waiting != "room in the record" {
			t.Errorf("node old-a-2 is %q, it stops with %q and waits for %q", step.Record.Nodes["old-a-2"].State, step.Record.Stopping, step.Status.Waiting)
		}
		if step := s.next(); step.Record.Nodes["old-a-2"].State == "" {
			t.Errorf("with room the node is not started: it waits for %q", step.Status.Waiting)
		}
	})
	t.Run("without one", func(t *testing.T) {
		s := newScene(t, old("old-a-1", build.Pod("web-0")), current("cur-a-1"))
		s.Request.IgnoreUnready = long
		step := s.rest()
		if step.Record.Result != record.Failed || !strings.Contains(step.Record.Message, "the record has no room") || !strings.Contains(step.Record.Message, "kubectl nodeupgrade abort workers") {
			t.Errorf("it ended with %q: %s", step.Record.Result, step.Record.Message)
		}
		if len(step.Record.Nodes) > 0 {
			t.Errorf("nodes were started: %v", step.Record.Nodes)
		}
	})
}
