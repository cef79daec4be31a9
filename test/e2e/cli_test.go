package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/contract"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// TestScriptsPrintExpectedOutputAndChangeNothing: only the script loop.txtar may change the cluster or the cloud.
func TestScriptsPrintExpectedOutputAndChangeNothing(t *testing.T) {
	t.Parallel()
	options := quickOptions()
	options.Cloud.EKS.Setup = time.Hour // so that the group "busy" is updated during the whole test
	s := fixture.ForTest(t, options)
	t.Run("no region", func(t *testing.T) { // before there are nodes, because the region would be known from them
		refusal{
			args: []string{"workers", "--yes", "--provider=aws"}, env: []string{"AWS_REGION="}, code: 1,
			says: []string{"no region", "set AWS_REGION"},
		}.check(t, s)
	})
	for _, name := range []string{"alpha", "beta", "gamma"} {
		addGroup(t, s, fixture.Group{Name: name, Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	}
	runScripts(t, s, testscript.Params{Files: []string{"testdata/loop.txtar"}})
	addGroupsThatCannotBeUpgraded(t, s)
	addWorkersGroup(t, s)

	before := readWrites(t, s)
	runScripts(t, s, testscript.Params{Dir: "testdata/script"})
	before.checkUnchanged(t, s)
	t.Run("reads", func(t *testing.T) { testReadsChangeNothing(t, s) })
	t.Run("cloud rights", func(t *testing.T) { testMissingCloudRightIsNamed(t, s) })
	t.Run("refusal", func(t *testing.T) { testRefusals(t, s) })
}

// runScripts runs the scripts of testscript one after another.
func runScripts(t *testing.T, s *fixture.Fixture, p testscript.Params) {
	t.Helper()
	p.Setup = func(env *testscript.Env) error {
		for _, entry := range s.Env() {
			if key, value, _ := strings.Cut(entry, "="); key != "TMPDIR" {
				env.Setenv(key, value)
			}
		}
		if group, err := s.Cloud.Group("workers"); err == nil {
			env.Setenv("NODE", group.Instances[0].Node)
		}
		return nil
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){"code": codeCommand, "document": documentCommand}
	testscript.RunT(sequentialT{t}, p)
}

// sequentialT is a test whose sub-tests run one after another.
type sequentialT struct{ *testing.T }

func (sequentialT) Parallel()     {}
func (sequentialT) Verbose() bool { return testing.Verbose() }

func (t sequentialT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(sequentialT{t}) })
}

// codeCommand is "code N COMMAND...": the command must exit with N.
func codeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s ended with %d, want %d\n%s", strings.Join(args[1:], " "), got, want, ts.ReadFile("stderr"))
	}
}

// documentCommand is "document FILE KIND": the file must be one JSON document of the kind and match the kind's schema.
func documentCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: document FILE KIND")
	}
	var found metav1.TypeMeta
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(decoder.Decode(&found))
	if found.Kind != args[1] {
		ts.Fatalf("the document is a %s, want a %s", found.Kind, args[1])
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		ts.Fatalf("the file has more text after the document: %v", err)
	}
	ts.Check(contract.Validate(ts.ReadFile(args[0])))
}

func addGroup(t *testing.T, s *fixture.Fixture, group fixture.Group) {
	t.Helper()
	if err := s.AddGroup(group); err != nil {
		t.Fatal(err)
	}
	awaitGroupNodes(t, s, group.Name)
}

// newestImage is an image with a Kubernetes version that does not exist yet.
const newestImage = "ami-0ccccccccccccccc3"

// addGroupsThatCannotBeUpgraded adds a group for each reason that prevents an upgrade.
func addGroupsThatCannotBeUpgraded(t *testing.T, s *fixture.Fixture) {
	t.Helper()
	one := func(name string, more func(*awscloud.GroupSpec)) fixture.Group {
		return fixture.Group{Name: name, Zones: []string{zoneA}, Counts: []int{1}, More: more}
	}
	s.Cloud.AddImage(newestImage, "v1.99.0", "x86_64")
	for _, group := range []fixture.Group{
		one("newer", func(spec *awscloud.GroupSpec) {
			s.Cloud.AddTemplate("newer", awscloud.TemplateVersion{Image: newestImage, InstanceType: "m7i.large"})
			spec.Template.Version = "3"
		}),
		one("operated", func(spec *awscloud.GroupSpec) { spec.Operator = "batch.amazonaws.com" }),
		one("refreshing", func(spec *awscloud.GroupSpec) {
			spec.Refreshes = []at.InstanceRefresh{{InstanceRefreshId: aws.String("08b91cf7-8fa6-48af-b6a6-d227f40f1b9b"), Status: at.InstanceRefreshStatusInProgress}}
		}),
		one("protected", nil),
		one("elsewhere", nil),
		one("bare", nil),
	} {
		addGroup(t, s, group)
	}
	protectFirstInstance(t, s, "protected")
	deleteFirstNode(t, s, "elsewhere")
	addManagedGroups(t, s)
	for name, image := range map[string]string{"m1": "v1", "m2": "v2"} {
		if err := s.Cluster.AddNode(t.Context(), controlplane.NodeSpec{Name: name, Labels: map[string]string{"pool": "x", "image": image}}); err != nil {
			t.Fatal(err)
		}
	}
}

func protectFirstInstance(t *testing.T, s *fixture.Fixture, group string) {
	t.Helper()
	status, err := s.Cloud.Group(group)
	if err == nil {
		err = s.Cloud.Protect(status.Instances[0].ID, true)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// deleteFirstNode deletes a group's first node from the cluster, as if the group belonged to another cluster.
func deleteFirstNode(t *testing.T, s *fixture.Fixture, group string) {
	t.Helper()
	status, err := s.Cloud.Group(group)
	if err == nil {
		err = s.Cluster.Client().CoreV1().Nodes().Delete(t.Context(), status.Instances[0].Node, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// addManagedGroups adds a node group that EKS could upgrade, and one for each reason that prevents it.
func addManagedGroups(t *testing.T, s *fixture.Fixture) {
	t.Helper()
	custom := s.Cloud.AddTemplate("custom", awscloud.TemplateVersion{Image: fixture.OldImage, InstanceType: "m7i.large"})
	for name, more := range map[string]func(*awscloud.NodegroupSpec){
		"managed": nil,
		"sick":    func(spec *awscloud.NodegroupSpec) { spec.UnhealthyReason = "Ec2SubnetInvalidConfiguration" },
		"busy":    nil,
		"behind": func(spec *awscloud.NodegroupSpec) {
			spec.ReleaseVersion, spec.Image = "1.34.9-20250901", fixture.OldImage
		},
		"custom": func(spec *awscloud.NodegroupSpec) {
			spec.ReleaseVersion, spec.CustomTemplate = "", awscloud.TemplateRef{ID: custom, Version: "1"}
		},
	} {
		_, err := s.AddManagedGroup(fixture.ManagedGroup{Name: name, Zones: []string{zoneA}, Counts: []int{1}, More: more})
		if err == nil {
			err = s.AwaitNodes(t.Context(), "pool="+name, 1)
		}
		if err == nil && name == "busy" {
			_, err = s.NewEKSClient().UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{
				ClusterName: aws.String(fixture.EKSCluster), NodegroupName: aws.String(name), UpdateConfig: &ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(2)},
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// addWorkersGroup adds the group "workers", which could be upgraded, with workloads. It also adds a pod without a controller.
func addWorkersGroup(t *testing.T, s *fixture.Fixture) {
	t.Helper()
	addGroup(t, s, fixture.Group{Name: "workers", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}})
	workers := map[string]string{"pool": "workers"}
	for _, w := range []fixture.Workload{
		{Name: "web", Replicas: 4, MaxUnavailable: "1", NodeSelector: workers},
		{Name: "db", Kind: "StatefulSet", Replicas: 2, MaxUnavailable: "1", NodeSelector: workers},
		{Name: "agent", Kind: "DaemonSet", NodeSelector: workers},
		{Name: "lonely", Kind: "Pod", NodeSelector: map[string]string{"pool": "bare"}},
	} {
		if err := s.Add(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// writes are the changes that the plugin has requested so far.
type writes struct{ cluster, cloud []string }

func readWrites(t *testing.T, s *fixture.Fixture) writes {
	t.Helper()
	cluster, err := s.Mutations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return writes{cluster: cluster, cloud: s.CloudMutations()}
}

// checkUnchanged fails the test if a change was requested since w was read.
func (w writes) checkUnchanged(t *testing.T, s *fixture.Fixture) {
	t.Helper()
	now := readWrites(t, s)
	if fresh := now.cluster[len(w.cluster):]; len(fresh) > 0 {
		t.Errorf("the API server received %v", fresh)
	}
	if fresh := now.cloud[len(w.cloud):]; len(fresh) > 0 {
		t.Errorf("the cloud received %v", fresh)
	}
}

// testReadsChangeNothing checks that no command that only reads changes the cluster or the cloud.
func testReadsChangeNothing(t *testing.T, s *fixture.Fixture) {
	formats := []string{"", "wide", "json", "yaml", "name", "markdown", "jsonpath={.kind}"}
	var commands [][]string
	for _, format := range formats {
		commands = append(commands,
			[]string{"-o", format}, []string{"status", "alpha", "-o", format}, []string{"status", "workers", "-o", format},
			[]string{"workers", "--dry-run=client", "-o", format}, []string{"workers", "--dry-run=server", "-o", format},
			[]string{"workers", "--dry-run", "--yes", "-o", format})
	}
	before := readWrites(t, s)
	probed := len(evictionDryRuns(t, s))
	for _, args := range commands {
		result := runKubectl(t, s, append([]string{"nodeupgrade"}, args...)...)
		if result.Code != 0 || result.Stdout == "" || result.Stderr != "" {
			t.Errorf("kubectl nodeupgrade %s ended with %d, stderr %q and %d bytes on stdout", strings.Join(args, " "), result.Code, result.Stderr, len(result.Stdout))
		}
	}
	before.checkUnchanged(t, s)
	// The dry run evicts one pod for each budget and owner: of web and of db.
	if got, want := len(evictionDryRuns(t, s))-probed, 2*len(formats); got != want {
		t.Errorf("%d evictions were requested as dry runs, want %d", got, want)
	}
}

// evictionDryRuns lists the evictions that were requested as dry runs.
func evictionDryRuns(t *testing.T, s *fixture.Fixture) []string {
	t.Helper()
	events, err := s.Cluster.AuditEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range events {
		if fixture.IsOurs(e) && e.IsEviction() && e.IsDryRun() {
			found = append(found, e.ObjectRef.Name)
		}
	}
	return found
}

// testMissingCloudRightIsNamed removes an action from the published policy. Plans and check must name that action. They may query
// IAM, so they must check every action (IAM001).
func testMissingCloudRightIsNamed(t *testing.T, s *fixture.Fixture) {
	t.Helper()
	const missing, key = "autoscaling:SuspendProcesses", "AKIDLACKING"
	who, err := fixture.PublishedCaller(t.Context(), "aws-read.json", "aws-simulate.json", "aws-operate.json")
	if err != nil {
		t.Fatal(err)
	}
	last := len(who.Policies) - 1
	who.Policies[last] = bytes.Replace(who.Policies[last], []byte(`"`+missing+`",`), nil, 1)
	if err := s.Cloud.SetCaller(key, who); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "workers", "--fail-on=never"}, {"workers", "--dry-run"}} {
		var out, errOut bytes.Buffer
		code, err := s.Start(t.Context(), &out, &errOut, []string{"AWS_ACCESS_KEY_ID=" + key}, append([]string{"nodeupgrade"}, args...)...).Wait()
		if err != nil || code != 0 {
			t.Fatalf("%v ended with %d, %v: %s", args, code, err, &errOut)
		}
		if text := out.String(); !strings.Contains(text, "your cloud credentials may not "+missing) || strings.Contains(text, "cannot say in advance") {
			t.Errorf("%v says\n%s\nwant it to name %s and no unchecked action", args, text, missing)
		}
	}
}
