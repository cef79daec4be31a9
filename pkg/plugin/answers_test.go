package plugin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

const listed = `NAME    PROVIDER   NODES   OUTDATED   PHASE   AGE
blue    manual     2       1          -       -
green   manual     1       0          -       -
`

// TestReadOnlyCommandsSendNoWrites runs commands that only read against a server with two groups.
func TestReadOnlyCommandsSendNoWrites(t *testing.T) {
	const nobody = "NAME    PROVIDER   NODES   OUTDATED   PHASE   AGE\nblue    manual     2       ?          -       -\ngreen   manual     1       ?          -       -\n"
	const unknown = "It is unknown which nodes of blue, green are outdated: pass --current KEY=VALUE, a label of current nodes.\n"
	cases := map[string]struct {
		args, stdout, stderr string
		code                 int
	}{
		"the list":                      {"--current image=v2", listed, "", 0},
		"the list, by its word":         {"list --current image=v2", listed, "", 0},
		"a plan, by its word":           {"plan green --current image=v2", "Nothing to do: its only node is current (image=v2)\nGroup       green (labelled nodes), context test\n", "", 0},
		"an upgrade, by its word":       {"upgrade green --current image=v2 --yes", "nodegroup/green is current: its only node is current\n", "", 0},
		"an upgrade of nothing":         {"upgrade --yes", "", "error: no group is named: kubectl nodeupgrade upgrade GROUP", 2},
		"a plan that would act":         {"plan green --dry-run=none", "", "error: --dry-run=none: plan never changes anything", 2},
		"a list of one":                 {"list green", "", "error: list takes no group: use kubectl nodeupgrade plan green", 2},
		"a list of labels":              {"list -l image=v2", "", "error: list takes no --selector: it shows all groups: ", 2},
		"labelled nodes by their name":  {"image=v2 --dry-run --current image=v2", "Nothing to do: all 2 nodes are current (image=v2)\nGroup       image=v2 (labelled nodes), context test\n", "", 0},
		"a status of labelled nodes":    {"status image=v1 --current image=v2", "Node group image=v1: no upgrade was started with this tool; 1 outdated\n", "", 0},
		"labels of no node by name":     {"image=v9 --dry-run", "", "error: finding the group: no node matches --selector=image=v9: check kubectl get nodes --show-labels\n", 2},
		"the version":                   {"--version", "kubectl nodeupgrade version " + currentVersion() + "\n", "", 0},
		"help on what there is not":     {"help nope", "", "error: there is no command \"nope\": ", 2},
		"days that are none":            {"blue --yes --soak=7x", "", "error: invalid argument \"7x\" for \"--soak\" flag: \"7x\" is not a time: use 90s, 15m, 1h30m or 7d", 2},
		"the list, nobody says":         {"", nobody, unknown, 0},
		"JSON of it":                    {"-o jsonpath={.items[*].outdated}", "\n", "", 0},
		"a plan, nobody says":           {"blue --dry-run", "Refused: which nodes are current is unknown: pass --current KEY=VALUE\nGroup       blue (labelled nodes), context test\nTarget      not known\n\nRefused     which nodes are current is unknown: pass --current KEY=VALUE\n", "", 3},
		"a check, nobody says":          {"check blue", "Nothing was checked: which nodes are current is unknown: pass --current KEY=VALUE; or pass --all-nodes to check as if all nodes were outdated\nGroup       blue (labelled nodes), context test: it is unknown which of its 2 nodes are outdated\n", "", 3},
		"a status, nobody says":         {"status blue", "Node group blue: no upgrade was started with this tool; it is unknown which nodes are outdated: pass --current KEY=VALUE, a label of current nodes\n", "", 0},
		"no time that never was":        {"status blue -o jsonpath={.status}{.started}{.outdated}", "\n", "", 0},
		"names":                         {"--current image=v2 -o name", "nodegroup/blue\nnodegroup/green\n", "", 0},
		"names of the outdated":         {"--current image=v2 -o name --outdated", "nodegroup/blue\n", "", 0},
		"a label that no node has":      {"--current a=b,image=v2 -l image=v2 -o name --dry-run", "", "error: --current=a=b: ", 2},
		"a label without a value":       {"--current kops.k8s.io/instancegroup --outdated", "", "error: --current=kops.k8s.io/instancegroup: ", 2},
		"no outdated group, as names":   {"--outdated -o name", "", "warning: left out, because it is not known which of their nodes are outdated: blue, green: run kubectl nodeupgrade list to see why\n", 0},
		"no outdated group":             {"--outdated", "", "No node group with outdated nodes can be upgraded.\n" + unknown, 0},
		"an unknown group":              {"red --dry-run", "", "error: no node group \"red\"; groups: blue, green\n", 2},
		"a verb mistyped":               {"statu --dry-run", "", "error: no node group \"statu\": did you mean the command \"status\"", 2},
		"an unknown node":               {"--node n9 --dry-run", "", "error: finding the group of node \"n9\": no such node: check kubectl get nodes\n", 2},
		"a selector of no node":         {"-l a=b --dry-run", "", "error: finding the group: no node matches --selector=a=b: check kubectl get nodes --show-labels\n", 2},
		"a status that never was":       {"status blue --current image=v2", "Node group blue: no upgrade was started with this tool; 1 outdated\n", "", 0},
		"a status of no group":          {"status", "No upgrade is running, and none is on record.\n", "", 0},
		"a group, nobody says":          {"blue --yes", "", "error: upgrading group \"blue\": which nodes are current is unknown: pass --current KEY=VALUE\n", 2},
		"a status of an unknown group":  {"status red", "", "error: no node group \"red\"; groups: blue, green\n", 2},
		"a plan with nothing to do":     {"green --current image=v2 --dry-run", "Nothing to do: its only node is current (image=v2)\nGroup       green (labelled nodes), context test\n", "", 0},
		"a group by one of its nodes":   {"--node g1 --current image=v2 --dry-run", "Nothing to do: its only node is current (image=v2)\nGroup       green (labelled nodes), context test\n", "", 0},
		"an upgrade with nothing to do": {"green --current image=v2 --yes", "nodegroup/green is current: its only node is current\n", "", 0},
		"nobody to ask":                 {"blue --current image=v2", "", "error: a question needs a terminal: run kubectl nodeupgrade blue --current=image=v2 --yes, or kubectl nodeupgrade blue --current=image=v2 --dry-run to see what would be done\n", 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			s.serve(t)
			stdout, stderr, code := invoke(t, strings.Fields(c.args)...)
			if code != c.code || stdout != c.stdout || !strings.HasPrefix(stderr, c.stderr) || (c.stderr == "") != (stderr == "") {
				t.Errorf("exit code %d, want %d\nstdout %q\nwant   %q\nstderr %q\nwant   %q", code, c.code, stdout, c.stdout, stderr, c.stderr)
			}
			if len(s.sentRequests()) > 0 {
				t.Errorf("a command that reads sent %q", s.sentRequests())
			}
		})
	}
}

// TestPlanWithoutForecastReadsOnlyPodsOfOutdatedNodes checks that the plan shows no times, and that the command reads no
// controllers and only the pods of outdated nodes.
func TestPlanWithoutForecastReadsOnlyPodsOfOutdatedNodes(t *testing.T) {
	s := twoGroups()
	var asked []string
	var mu sync.Mutex
	s.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path+" "+r.URL.Query().Get("fieldSelector"))
		return false
	}
	s.serve(t)
	stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run", "--forecast=false", "-o", "json")
	var plan report.Plan
	if err := json.Unmarshal([]byte(stdout), &plan); err != nil || code != exitDone {
		t.Fatalf("exit code %d, error %v, stderr %q", code, err, stderr)
	}
	if n := plan.Nodes; len(n) != 1 || n[0].Pods != 1 || n[0].Batch != 0 || len(n[0].BlockedBy) > 0 || plan.Duration != (simulate.Span{}) {
		t.Errorf("got nodes %+v and duration %v", n, plan.Duration)
	}
	slices.Sort(asked)
	pods := slices.DeleteFunc(slices.Clone(asked), func(path string) bool { return !strings.HasPrefix(path, "/api/v1/pods ") })
	want := []string{"/api/v1/pods spec.nodeName=b1"}
	if !slices.Equal(pods, want) || strings.Contains(strings.Join(asked, "\n"), "/apis/apps/") {
		t.Errorf("it asked for\n%s\nand of pods for %q only", strings.Join(asked, "\n"), want)
	}
}

// TestUpgradeNamesMissingPermissionsBeforeItWrites: the error lists each missing permission.
func TestUpgradeNamesMissingPermissionsBeforeItWrites(t *testing.T) {
	s := twoGroups()
	s.readOnly = true
	s.serve(t)
	_, stderr, code := invoke(t, "blue", "--current=image=v2", "--yes", "--on-timeout=force")
	for _, right := range []string{"patch nodes", "create pods/eviction", "delete pods", "update leases in namespace kube-system"} {
		if !strings.Contains(stderr, right) {
			t.Errorf("stderr does not name the right to %s: %q", right, stderr)
		}
	}
	if code != exitError || len(s.sentRequests()) > 0 {
		t.Errorf("exit code %d, sent %q", code, s.sentRequests())
	}
}

// TestCommandsPrintOneDocumentWithEmptyLists checks that each command prints one document, with empty lists instead of null.
func TestCommandsPrintOneDocumentWithEmptyLists(t *testing.T) {
	cases := map[string]struct {
		args, kind, names string
		list              func(map[string]json.RawMessage) json.RawMessage
	}{
		"the list":                  {"--current image=v2", "NodeGroupList", "blue green", items},
		"an empty list":             {"--outdated", "NodeGroupList", "", items},
		"a plan":                    {"blue --current image=v2 --dry-run", "Plan", "", nil},
		"plans":                     {"blue green --current image=v2 --dry-run", "PlanList", "blue green", items},
		"a plan with nothing to do": {"green --current image=v2 --dry-run", "Plan", "", func(o map[string]json.RawMessage) json.RawMessage { return o["nodes"] }},
		"a status":                  {"status blue --current image=v2", "UpgradeStatus", "", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			twoGroups().serve(t)
			stdout, stderr, code := invoke(t, append(strings.Fields(c.args), "-o", "json")...)
			if leavesOut := c.args == "--outdated"; code != exitDone || strings.HasPrefix(stderr, "warning: left out, ") != leavesOut || (stderr != "") != leavesOut {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			var object map[string]json.RawMessage
			decodeOneDocument(t, stdout, &object)
			if got := string(object["kind"]); got != `"`+c.kind+`"` {
				t.Errorf("kind %s, want %s", got, c.kind)
			}
			if c.list == nil {
				return
			}
			var named []struct{ Metadata metav1.ObjectMeta }
			if err := json.Unmarshal(c.list(object), &named); err != nil || named == nil {
				t.Fatalf("the list is %s, error %v", c.list(object), err)
			}
			var names []string
			for _, n := range named {
				names = append(names, n.Metadata.Name)
			}
			if got := strings.Join(names, " "); got != c.names {
				t.Errorf("lists %q, want %q", got, c.names)
			}
		})
	}
}

func items(object map[string]json.RawMessage) json.RawMessage { return object["items"] }

// TestDryRunServerSendsOnlyEvictionAndNewPod checks the writes of --dry-run=server.
func TestDryRunServerSendsOnlyEvictionAndNewPod(t *testing.T) {
	s := twoGroups()
	s.serve(t)
	stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run=server")
	if code != exitDone || stderr != "" || !strings.Contains(stdout, "Probe       pod shop/web-0: may be evicted now\nProbe       new pod of ReplicaSet shop/web: may be created now\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	want := []string{"POST /api/v1/namespaces/shop/pods/web-0/eviction", "POST /api/v1/namespaces/shop/pods"}
	if got := s.sentRequests(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// TestPlanShowsNewPodsThatAPIServerRefuses: the exit code depends on these pods, and the plan also lists the creations that
// could not be verified.
func TestPlanShowsNewPodsThatAPIServerRefuses(t *testing.T) {
	const ofQuota = `pods "web-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=`
	for name, c := range map[string]struct {
		says     string
		readOnly bool
		plan     string
		code     int
	}{
		"refused":            {says: ofQuota + "1", plan: "refused: " + ofQuota + "1: raise ResourceQuota few, or remove pods that count against it", code: exitStructural},
		"only for now":       {says: ofQuota + "2", plan: "may be created after an old one has ended: " + ofQuota + "2", code: exitDone},
		"for lack of rights": {says: "pods is forbidden", readOnly: true, plan: "unverified: you may not create pods in namespace shop", code: exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			s.readOnly = c.readOnly
			s.refuse = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/shop/pods" || r.URL.Query().Get("dryRun") != "All" {
					return false
				}
				answer(w, http.StatusForbidden, metav1.Status{
					TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: c.says,
				})
				return true
			}
			s.serve(t)
			stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run=server")
			if want := "Probe       new pod of ReplicaSet shop/web: " + c.plan + "\n"; code != c.code || !strings.Contains(stdout, want) {
				t.Errorf("exit code %d, want %d, and %q in %q, stderr %q", code, c.code, want, stdout, stderr)
			}
		})
	}
}

// TestPlanOfBlockedUpgradeExitsWithCode3: a budget of a pod on a current node does not block the upgrade.
func TestPlanOfBlockedUpgradeExitsWithCode3(t *testing.T) {
	cases := map[string]func(*apiServer){
		"by a budget": func(s *apiServer) {
			s.budgets = []policyv1.PodDisruptionBudget{*build.Budget("web", build.Counts(2, 2, 2))}
		},
		"by a pod without controller": func(s *apiServer) { s.pods = append(s.pods, *build.Pod("seed", build.Bare, build.On("b1"))) },
		"but not by one on a current": func(s *apiServer) { s.pods = append(s.pods, *build.Pod("seed", build.Bare, build.On("b2"))) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			change(s)
			s.serve(t)
			want := exitStructural
			if strings.HasPrefix(name, "but not") {
				want = exitDone
			}
			stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run")
			if code != want || stderr != "" || strings.Contains(stdout, "\nBlocked  ") != (want == exitStructural) {
				t.Errorf("exit code %d, want %d; stdout\n%s\nstderr %q", code, want, stdout, stderr)
			}
		})
	}
}

// storeRecord stores an upgrade record of a group.
func (s *apiServer) storeRecord(t *testing.T, group string, record record.Record) {
	t.Helper()
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	s.maps = append(s.maps, corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: cluster.ObjectName(group), Labels: map[string]string{cluster.LabelManagedBy: cluster.FieldManager}},
		Data:       map[string]string{"record": string(text), "group": group},
	})
}

// storeRequest stores a user's request beside the first record; "" stores none.
func (s *apiServer) storeRequest(t *testing.T, verb record.Verb) {
	t.Helper()
	if verb == "" {
		return
	}
	text, err := json.Marshal(record.Asked{Verb: verb, Run: "r1", By: "bob@host", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	s.maps[0].Data["request"] = string(text)
}

func stoppedRecordOf(result record.Result) record.Record {
	return record.Record{
		Version: 1, Run: "r1", Phase: record.PhaseUpgrade, Result: result, Total: 3, Replaced: 2,
		Target: nodegroup.Revision{ID: "image=v2", Name: "image=v2"},
	}
}

// TestStatusUsesTargetOfRecord checks that a status knows the current nodes if the upgrade recorded their labels.
func TestStatusUsesTargetOfRecord(t *testing.T) {
	s := twoGroups()
	rec := stoppedRecordOf(record.PodEvictionFailure)
	rec.Request = record.Request{Group: "blue", Run: "r1", Strategy: record.Surge, Like: "eks", MaxUnavailable: 1, Window: 1, Current: map[string]string{"image": "v2"}}
	s.storeRecord(t, "blue", rec)
	s.serve(t)
	stdout, stderr, code := invoke(t, "status", "blue")
	if code != exitDone || stderr != "" || !strings.Contains(stdout, "2 of 3 nodes replaced, 1 not started") || strings.Contains(stdout, string(record.TargetMoved)) {
		t.Errorf("exit code %d, stdout\n%s\nstderr %q", code, stdout, stderr)
	}
}

func TestListShowsPhaseOrResultOfUpgrades(t *testing.T) {
	s := twoGroups()
	s.storeRecord(t, "blue", stoppedRecordOf(""))
	s.storeRecord(t, "green", stoppedRecordOf(record.Succeeded))
	s.serve(t)
	stdout, stderr, code := invoke(t, "-o", "jsonpath={range .items[*]}{.metadata.name}={.phase} {end}")
	if want := "blue=upgrade green=succeeded \n"; code != exitDone || stdout != want || stderr != "" {
		t.Errorf("exit code %d, stdout %q, want %q; stderr %q", code, stdout, want, stderr)
	}
}

// TestListNamesUpgradesOfLabelledNodes checks that the list has a hint about a stopped upgrade of labelled nodes, which
// are in no group of the list.
func TestListNamesUpgradesOfLabelledNodes(t *testing.T) {
	s := twoGroups()
	s.storeRecord(t, "blue", stoppedRecordOf(record.Interrupted))
	s.storeRecord(t, "pool in (a,b)", stoppedRecordOf(record.Interrupted))
	s.storeRecord(t, "team=x", stoppedRecordOf(record.Succeeded))
	s.serve(t)
	_, stderr, code := invoke(t, "--current=image=v2")
	if want := "Not listed: the upgrade of pool in (a,b) (interrupted): see kubectl nodeupgrade status -l 'pool in (a,b)'.\n"; code != exitDone || stderr != want {
		t.Errorf("exit code %d, stderr %q, want %q", code, stderr, want)
	}
}

// TestListWarnsIfRecordsCannotBeRead: the groups are listed with unknown phases.
func TestListWarnsIfRecordsCannotBeRead(t *testing.T) {
	s := twoGroups()
	s.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "configmaps") {
			http.Error(w, "no", http.StatusForbidden)
			return true
		}
		return false
	}
	s.serve(t)
	stdout, stderr, code := invoke(t, "--current=image=v2")
	if code != exitDone || stdout != strings.ReplaceAll(listed, "-       -\n", "?       -\n") || !strings.HasPrefix(stderr, "warning: phases are unknown: ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestStatusWithoutGroupChoosesGroupWithRecord(t *testing.T) {
	cases := map[string]struct {
		records map[string]record.Result
		want    string
	}{
		"the only one with a record": {map[string]record.Result{"blue": record.Interrupted}, "interrupted: 2 of 3 nodes replaced, 1 not started\nGroup       blue to image=v2, run r1"},
		"the only one under way":     {map[string]record.Result{"blue": "", "green": record.Succeeded}, "2 of 3 nodes replaced, 1 not started\nGroup       blue to image=v2, run r1"},
		"two under way":              {map[string]record.Result{"blue": "", "green": ""}, "error: several upgrades are running: pass one of blue, green\n"},
		"one of labelled nodes":      {map[string]record.Result{"image in (v1,v2)": ""}, "2 of 3 nodes replaced, 1 not started\nGroup       image in (v1,v2) to image=v2, run r1"},
		"two, one of labelled nodes": {map[string]record.Result{"blue": "", "image in (v1,v2)": ""}, "error: several upgrades are running: pass one of blue, -l 'image in (v1,v2)'\n"},
		"none under way":             {map[string]record.Result{"blue": record.Succeeded, "green": record.Succeeded}, "No upgrade is running. There are records for blue, green: see kubectl nodeupgrade status GROUP.\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			for group, result := range c.records {
				s.storeRecord(t, group, stoppedRecordOf(result))
			}
			s.serve(t)
			stdout, stderr, code := invoke(t, "status", "--current=image=v2")
			want := exitDone
			if strings.HasPrefix(c.want, "error") {
				want = exitUsage
			}
			if code != want || !strings.HasPrefix(stdout+stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, want, c.want)
			}
		})
	}
}

func TestStatusDocumentDescribesRecordedUpgrade(t *testing.T) {
	s := twoGroups()
	s.storeRecord(t, "blue", stoppedRecordOf(record.Interrupted))
	s.serve(t)
	stdout, stderr, code := invoke(t, "status", "blue", "--current=image=v2", "-o", "json")
	var got report.UpgradeStatus
	decodeOneDocument(t, stdout, &got)
	if code != exitDone || stderr != "" || got.Run != "r1" || got.Result != record.Interrupted || got.Status.Replaced != 2 || got.Status.Total != 3 || got.Name != "blue" {
		t.Errorf("exit code %d, stderr %q, got %+v", code, stderr, got)
	}
}

// TestStatusShowsTotalOfRecord checks that the total comes from the record of a running upgrade. The record may be
// newer than the reading of the group, which may still have a node that is gone.
func TestStatusShowsTotalOfRecord(t *testing.T) {
	s := twoGroups()
	s.storeRecord(t, "blue", inDrain(func(r *record.Record) { r.Total, r.Replaced, r.Nodes = 2, 2, nil }))
	s.withLeases()
	s.serve(t)
	stdout, stderr, code := invoke(t, "status", "blue", "--current=image=v2", "-o", "json")
	var got report.UpgradeStatus
	decodeOneDocument(t, stdout, &got)
	if code != exitDone || got.Status.Total != 2 || got.Status.Outdated == 0 {
		t.Errorf("exit code %d, stderr %q, total %d of 2, %d not started", code, stderr, got.Status.Total, got.Status.Outdated)
	}
}

// TestStatusFindsGroupNamedByLabelKey uses a label key as selector. Commands that name such a group find it by its record.
func TestStatusFindsGroupNamedByLabelKey(t *testing.T) {
	s := twoGroups()
	s.storeRecord(t, "image", inDrain(func(r *record.Record) { r.Result, r.Request.Group = record.Interrupted, "image" }))
	s.withLeases()
	s.serve(t)
	stdout, stderr, code := invoke(t, "status", "image", "-o", "json")
	var got report.UpgradeStatus
	decodeOneDocument(t, stdout, &got)
	if code != exitDone || got.Name != "image" || got.Run != "r1" {
		t.Errorf("exit code %d, stderr %q, got %+v", code, stderr, got)
	}
	for _, args := range [][]string{{"image", "--yes"}, {"plan", "image"}} { // a record must not choose the nodes of an upgrade
		if _, stderr, code = invoke(t, args...); code != exitUsage || !strings.Contains(stderr, `no node group "image"`) {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	}
	if _, stderr, code = invoke(t, "status", "flavour"); code != exitUsage || !strings.Contains(stderr, `no node group "flavour"`) {
		t.Errorf("without a record: exit code %d, stderr %q", code, stderr)
	}
}
