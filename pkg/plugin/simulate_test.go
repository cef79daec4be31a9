package plugin

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
)

// simulated runs the simulate command without a kubeconfig, so a request to a cluster would fail.
func simulated(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var out, errOut bytes.Buffer
	args = append([]string{"simulate"}, args...)
	code = Run(context.Background(), args, strings.NewReader(stdin), &out, &errOut)
	if err := contract.CheckOutput(args, out.String(), errOut.String(), code); err != nil {
		t.Error(err)
	}
	return out.String(), errOut.String(), code
}

// TestSimulatePrintsBuiltInExample compares stdout and stderr with golden files.
func TestSimulatePrintsBuiltInExample(t *testing.T) {
	stdout, stderr, code := simulated(t, "", "--progress=plain")
	if code != exitDone {
		t.Errorf("exit code %d, want %d", code, exitDone)
	}
	golden(t, "testdata/simulate.txt", stdout)
	golden(t, "testdata/simulate-progress.txt", stderr)
}

func TestSimulateRejectsGroupThatExampleLacks(t *testing.T) {
	stdout, stderr, code := simulated(t, "", "nobody")
	if want := `error: reading the built-in example: no node group "nobody"`; code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d, stdout %q, stderr %q; want %d, nothing and %q", code, stdout, stderr, exitUsage, want)
	}
}

// TestReadmeExampleContainsOnlyPrintedLines compares the README's example with the output on a terminal of 80 columns.
func TestReadmeExampleContainsOnlyPrintedLines(t *testing.T) {
	_, shown, ok := strings.Cut(readmeText(t), "\n$ kubectl nodeupgrade simulate\n")
	shown, _, closed := strings.Cut(shown, "\n```\n")
	if !ok || !closed {
		t.Fatalf("%s does not show kubectl nodeupgrade simulate", readme)
	}
	stdout := onTerminal(t, 80, "simulate", "--color=never")
	for line := range strings.Lines(shown) {
		if line = strings.TrimSuffix(line, "\n"); line != "…" && !strings.Contains(stdout, line+"\n") {
			t.Errorf("%s shows a line that is not printed: %s\nprinted:\n%s", readme, line, stdout)
		}
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not what %s holds: run go test ./pkg/plugin -run TestSimulate -update and read the difference\ngot:\n%s", file, got)
	}
}

// TestSimulateIsDeterministic runs the example twice, with pods and nodes that take a range of
// times.
func TestSimulateIsDeterministic(t *testing.T) {
	once, _, _ := simulated(t, "", "--max-unavailable=3", "-o", "json")
	twice, _, _ := simulated(t, "", "--max-unavailable=3", "-o", "json")
	if once != twice {
		t.Errorf("once:\n%s\ntwice:\n%s", once, twice)
	}
}

// smallCluster is a small dump: two nodes of the group a with a Deployment's two pods, and one of
// the group b.
const smallCluster = `
{apiVersion: v1, kind: Node, metadata: {name: a1, labels: {pool: p, image: v1, kops.k8s.io/instancegroup: a}}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: a2, labels: {pool: p, image: v2, kops.k8s.io/instancegroup: a}}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: b1, labels: {kops.k8s.io/instancegroup: b}}, status: {conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web, namespace: shop}, spec: {replicas: 2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true}]}, spec: {nodeName: a1}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true}]}, spec: {nodeName: a2}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
`

// neverOpens is a budget for the Deployment's pods that admits no eviction whatever happens.
const neverOpens = `---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: shop, generation: 1}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}, status: {observedGeneration: 1, expectedPods: 2, currentHealthy: 2, desiredHealthy: 2}}
`

func TestSimulateReadsADump(t *testing.T) {
	onAWS := strings.NewReplacer(
		"image: v1", "image: v1, topology.kubernetes.io/zone: us-east-1a", "image: v2", "image: v2, topology.kubernetes.io/zone: us-east-1b",
	).Replace(smallCluster)
	cases := map[string]struct {
		dump string
		args []string
		code int
		// want are parts of stdout, or of stderr when it is an error.
		want []string
	}{
		"a group by its name":          {smallCluster, []string{"a"}, exitDone, []string{"Group       a (labelled nodes), context stdin", "2 of 2 nodes are outdated"}},
		"a group by one of its nodes":  {smallCluster, []string{"--node=b1"}, exitDone, []string{"Group       b (labelled nodes)", "1 of 1 node is outdated"}},
		"a group by a selector":        {smallCluster, []string{"-l", "pool=p"}, exitDone, []string{"Group       pool=p (labelled nodes)", "2 of 2 nodes are outdated"}},
		"nodes that are current":       {smallCluster, []string{"a", "--current=image=v2"}, exitDone, []string{"image=v2: 1 of 2 nodes is outdated", "a1"}},
		"nodes that are all current":   {smallCluster, []string{"a", "--current=pool=p"}, exitDone, []string{"Nothing to do: all 2 nodes are current"}},
		"zones and surge as AWS":       {onAWS, []string{"a", "--provider=aws"}, exitDone, []string{"Auto Scaling group", "at most 4 during the upgrade (us-east-1a +1, us-east-1b +1), 2 afterwards"}},
		"a strategy":                   {onAWS, []string{"a", "--provider=aws", "--max-surge=1", "--like=gke"}, exitDone, []string{"surge, with GKE's numbers", "during the upgrade"}},
		"a target":                     {smallCluster, []string{"a", "--to=ami-1"}, exitDone, []string{"ami-1: 2 of 2"}},
		"names alone":                  {smallCluster, []string{"a", "-o", "name"}, exitDone, []string{"nodegroup/a\n"}},
		"one document":                 {smallCluster, []string{"a", "-o", "json"}, exitDone, []string{`"kind": "Plan"`}},
		"a budget that never opens":    {smallCluster + neverOpens, []string{"a"}, exitStructural, []string{"PDB shop/web"}},
		"several groups":               {smallCluster, nil, exitUsage, []string{"error: reading stdin: name one of its node groups: a, b"}},
		"an unknown group":             {smallCluster, []string{"c"}, exitUsage, []string{`error: reading stdin: no node group "c"; groups: a, b`}},
		"no group":                     {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"x"}}`, nil, exitUsage, []string{"error: reading stdin: its 1 nodes belong to no known node group: pass -l SELECTOR"}},
		"AWS without a zone":           {smallCluster, []string{"a", "--provider=aws"}, exitUsage, []string{`error: node "a1" has no zone: add the label topology.kubernetes.io/zone to it, or pass --provider=manual`}},
		"a dump cut short":             {smallCluster[:200], []string{"a"}, exitUsage, []string{"error: reading stdin: document 2 is not YAML: line 1"}},
		"two groups at once":           {smallCluster, []string{"a", "b"}, exitUsage, []string{"error: simulate takes one group; got a, b"}},
		"a flag that changes clusters": {smallCluster, []string{"a", "--takeover"}, exitUsage, []string{"error: simulate takes no --takeover (only upgrade does): remove the flag"}},
		"a wish that contradicts":      {smallCluster, []string{"a", "--max-surge=2"}, exitUsage, []string{"error: --max-surge=2: this tool cannot add nodes to groups of provider manual"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := simulated(t, c.dump, append(c.args, "-f", "-")...)
			if code != c.code {
				t.Errorf("exit code %d, want %d; stderr:\n%s", code, c.code, stderr)
			}
			got := stdout
			if code == exitUsage || code == exitError {
				got = stderr
			}
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q is not in:\n%s", part, got)
				}
			}
		})
	}
}

func TestSimulateReadsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.yaml.gz")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := fmt.Fprint(w, smallCluster)
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.WriteFile(file, packed.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := simulated(t, "", "a", "-f", file)
	if code != exitDone || !strings.Contains(stdout, "context "+file) {
		t.Errorf("exit code %d, stderr %s, stdout:\n%s", code, stderr, stdout)
	}
	if !strings.Contains(stderr, "all 2 nodes count as outdated") {
		t.Errorf("not said that all nodes count as outdated:\n%s", stderr)
	}
	if _, stderr, code = simulated(t, "", "-f", file+".missing"); code != exitUsage || !strings.Contains(stderr, "no such file") {
		t.Errorf("a missing file: exit code %d, %s", code, stderr)
	}
}

// TestPlainAndJSONProgressHaveEquallyManyEvents: each line of JSON is a valid event with counts.
func TestPlainAndJSONProgressHaveEquallyManyEvents(t *testing.T) {
	_, plain, _ := simulated(t, smallCluster, "a", "-f", "-", "--progress=plain")
	_, lines, _ := simulated(t, smallCluster, "a", "-f", "-", "--progress=json")
	for _, part := range []string{"00:00:00  phase ", "node a1 draining 1 pod", "upgraded: 2 of 2 nodes"} {
		if !strings.Contains(plain, part) {
			t.Errorf("%q is not in:\n%s", part, plain)
		}
	}
	for line := range strings.Lines(lines) {
		if err := contract.ValidateEvent(line); err != nil || !strings.Contains(line, `"counts":`) {
			t.Errorf("not an event with counts (%v): %s", err, line)
		}
	}
	events := strings.Count(plain, "\n") - strings.Count(plain, "note: ")
	if got := strings.Count(lines, "\n"); got != events {
		t.Errorf("%d events as JSON, %d as lines", got, events)
	}
}

// TestSimulatedEventsMatchPlan uses full nodes, and users who replace each drained node. The transcript must end with the result
// of the plan.
func TestSimulatedEventsMatchPlan(t *testing.T) {
	full := strings.NewReplacer(
		"status: {conditions", `status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}, conditions`,
		"spec: {nodeName", `spec: {containers: [{name: web, resources: {requests: {cpu: "2"}}}], nodeName`,
	).Replace(smallCluster)
	plan, transcript, code := simulated(t, full, "-l", "pool=p", "--current=image=v3", "-f", "-", "--progress=plain")
	if code != exitDone || !strings.Contains(transcript, "upgraded: 2 of 2 nodes") || strings.Contains(plan, "Ends ") {
		t.Errorf("exit code %d, transcript\n%s\nplan\n%s", code, transcript, plan)
	}
}

// singleton adds a Deployment of one pod, which is on an outdated node and selects such nodes alone.
const singleton = `---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: shop}, spec: {replicas: 1, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: api-1, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: api, controller: true}]}, spec: {replicas: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: api-1-x, namespace: shop, labels: {app: api, pod-template-hash: "1"}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: api-1, controller: true}]}, spec: {nodeName: a1, nodeSelector: {image: v1}, containers: [{name: api, ports: [{containerPort: 80}]}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaimList, items: []}
---
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}, spec: {selector: {app: api}}}
`

// TestSimulatePrintsPlan checks that the plan of a dump has the same parts and exit code as the plan of a cluster: the workloads
// with one ready pod, the changes by --move=surge, and the findings of all rules.
func TestSimulatePrintsPlan(t *testing.T) {
	cases := map[string]struct {
		args          []string
		says, without []string
	}{
		"by eviction":             {nil, []string{"Gaps        one replica only: shop/Deployment/api", ". --move=surge avoids it", "Blocked     Deployment shop/api", "Error       "}, []string{"Restarts"}},
		"by a restart":            {[]string{"--move=surge"}, []string{"Restarts    shop/Deployment/api: spec.template.metadata.annotations is set", "Blocked     Deployment shop/api"}, []string{"Gaps"}},
		"a rule that is left out": {[]string{"--skip-check=POD010"}, []string{"Gaps        one replica only: shop/Deployment/api"}, []string{"Blocked     Deployment shop/api"}},
		"as a document":           {[]string{"-o", "json"}, []string{`"singletons": [`, `"name": "shop/Deployment/api"`, `"rule": "POD010"`, `"rule": "PRB001"`}, nil},
		"what is not known":       {nil, []string{"rules not checked, or only in part: kubectl nodeupgrade check --filename=- --current=image=v2 a shows which"}, []string{"infos more"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := simulated(t, smallCluster+singleton, append([]string{"a", "--current=image=v2", "-f", "-"}, c.args...)...)
			for _, text := range c.says {
				if !strings.Contains(stdout, text) {
					t.Errorf("the output lacks %q:\n%s%s", text, stdout, stderr)
				}
			}
			for _, text := range c.without {
				if strings.Contains(stdout, text) {
					t.Errorf("the output contains %q:\n%s", text, stdout)
				}
			}
			if want := exitStructural; name != "a rule that is left out" && code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}
