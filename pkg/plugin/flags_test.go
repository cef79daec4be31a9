package plugin

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestContradictingFlagsAreRejected checks that a command line with contradicting flags prints one line with a remedy, exits with
// code 2 and sends no request.
func TestContradictingFlagsAreRejected(t *testing.T) {
	const names = "use only one of a group's name, --node and -l"
	cases := map[string]struct{ args, want string }{
		"a group and a node":           {"workers --node n1", names},
		"a group and a selector":       {"workers -l a=b", names},
		"a node and a selector":        {"--node n1 -l a=b", names},
		"two selectors":                {"-l a=b -l a=c", `the flag is given twice, as "a=b" and as "a=c": pass it once`},
		"two nodes":                    {"--node n1 --node n2", `the flag is given twice, as "n1" and as "n2": pass it once`},
		"all three":                    {"workers --node n1 -l a=b", names},
		"an empty name":                {"nodegroup/", "a group's name is empty: kubectl nodeupgrade lists the groups"},
		"yes without a group":          {"--yes", "--yes without a group: name the group to upgrade (kubectl nodeupgrade lists them)"},
		"-y without a group":           {"-y", "--yes without a group: name the group to upgrade (kubectl nodeupgrade lists them)"},
		"a dry run without a group":    {"--dry-run", "--dry-run without a group: name the group to plan for (kubectl nodeupgrade lists them)"},
		"a user extra without a value": {"workers --as-user-extra=scopes", "--as-user-extra=scopes has no value: use --as-user-extra=KEY=VALUE"},
		"a dry run of another kind":    {"workers --dry-run=cloud", "--dry-run=cloud is not known: use none, client or server"},
		"a dry run with a space":       {"workers --dry-run server", "--dry-run server has a space: write --dry-run=server"},
		"a filter of one group":        {"workers --outdated", "--outdated filters the list of groups: remove the flag, or the group"},
		"a comparison to carry out":    {"workers --compare --yes", "--compare works only with plans: add --dry-run"},
		"a comparison of two groups":   {"a b --compare --dry-run", "--compare works for one group: name only one"},
		"a comparison by guess":        {"a --compare --dry-run --forecast=false", "--compare needs forecasts: remove --forecast=false"},
		"a provider":                   {"--provider=azure", "--provider=azure is not known: use auto, aws, gke, karpenter or manual"},
		"a selector of a cloud":        {"-l a=b --provider=aws", "--selector works only with --provider=manual: change or remove --provider"},
		"a selector":                   {"-l a=b,,", "--selector=a=b,,: found ',', expected: identifier after ','"},
		"a way of progress":            {"--progress=loud", "--progress=loud is not known: use auto, live, tty, plain, json or quiet"},
		"labels without a value":       {"workers --current image", "--current=image: invalid selector: [image]: write KEY=VALUE[,KEY=VALUE]"},
		"a label with two values":      {"-l a=b --current image=v2,image=v3", `--current=image=v2,image=v3: label image is given twice, with "v2" and "v3": use one value`},
		"a revision of labels":         {"-l a=b --to=5", "--to=5: labelled nodes have no revision: pass --current KEY=VALUE instead"},
		"a revision without a cloud":   {"workers --provider=manual --to=5", "--to=5: labelled nodes have no revision"},
		"no namespace":                 {"workers --state-namespace=", "--state-namespace= is empty: pass a value, or remove the flag"},
		"no namespace for a status":    {"status workers --state-namespace=", "--state-namespace= is empty"},
		"no width":                     {"workers --max-unavailable=", "--max-unavailable= is empty"},
		"no surge":                     {"workers --max-surge=", "--max-surge= is empty"},
		"no cluster":                   {"workers --cluster-name=", "--cluster-name= is empty"},
		"no selector":                  {"--selector=", "--selector= is empty"},
		"no node":                      {"--node=", "--node= is empty"},
		"no labels":                    {"workers --current=", "--current= is empty"},
		"more logs than there are":     {"workers -v 99", "99 is not a level from 0 to 10"},
		"less logs than there are":     {"workers -v=-1", "-1 is not a level from 0 to 10"},
		"labels that exclude":          {"workers --current image!=v1", "write KEY=VALUE[,KEY=VALUE]"},
		"a format":                     {"-o xml", "--output=xml is not known: use table, wide, json, yaml, name, markdown, jsonpath=… or go-template=…"},
		"a template that is none":      {"-o jsonpath={", "unclosed action"},
		"a template without text":      {"-o go-template=", "template"},
		"no unavailable nodes":         {"workers --max-unavailable=0%", "--max-unavailable: "},
		"half a node":                  {"workers --max-unavailable=1.5", "--max-unavailable: "},
		"a surge of words":             {"workers --max-surge=some", "--max-surge: "},
		"what becomes of pods":         {"workers --unmanaged-pods=keep", "--unmanaged-pods=keep is not known: use refuse or evict"},
		"a time without a unit":        {"workers --drain-timeout=5", `invalid argument "5" for "--drain-timeout" flag`},
		"no time to drain":             {"workers --drain-timeout=-5s", "--drain-timeout=-5s leaves no time to drain: use a positive duration"},
		"no time to boot":              {"workers --boot-timeout=0s", "--boot-timeout=0s leaves no time to boot: use a positive duration"},
		"a settling time before":       {"workers --settle=-1s", "--settle=-1s is negative: use 0 or more"},
		"what becomes of late nodes":   {"workers --on-timeout=wait", "--on-timeout=wait is not known: use fail, force or skip"},
		"a model":                      {"workers --like=aks", "--like=aks is neither eks nor gke"},
		"a strategy":                   {"workers --strategy=canary", "--strategy=canary is not known: use surge"},
		"a simulation's time":          {"simulate --drain-timeout=0s", "--drain-timeout=0s leaves no time to drain: use a positive duration"},
		"a flag":                       {"workers --force", "unknown flag: --force: see kubectl nodeupgrade --help"},
		"a bool":                       {"workers --yes=maybe", "--yes=maybe: use true or false"},
		"two groups' status":           {"status a b", "status takes one group; got a, b"},
		"a status by name and node":    {"status a --node n1", names},
		"an upgrade's flag of status":  {"status a --yes", "status takes no --yes (only abort, complete, resume, rollback and upgrade do): remove the flag"},
		"settings of a list":           {"--max-surge=2", "kubectl nodeupgrade takes no --max-surge: the flag sets how a group is upgraded, but no group was named: name a group"},
		"a rule of a list":             {"--skip-check=PDB001", "kubectl nodeupgrade takes no --skip-check: the flag sets how a group is upgraded"},
		"a list that waits":            {"--wait", "kubectl nodeupgrade takes no --wait: the flag sets how a group is upgraded"},
		"a list's progress":            {"--progress=plain", "kubectl nodeupgrade takes no --progress: a list has no progress"},
		"progress of list":             {"list --progress=json", "list takes no --progress: it changes nothing"},
		"a plan's progress":            {"plan a --progress=json", "plan takes no --progress: it changes nothing"},
		"a check's progress":           {"check a --progress=json", "check takes no --progress: it changes nothing"},
		"a status's progress":          {"status a --progress=json", "status takes no --progress: it changes nothing"},
		"a version's progress":         {"version --progress=json", "version takes no --progress: it changes nothing"},
		"a version's node":             {"version --node n1", "version takes no --node: it needs no group: remove the flag"},
		"a soak of status":             {"status a --soak=1h", "status takes no --soak (only check, plan, simulate and upgrade do): remove the flag"},
		"a short flag of plan":         {"plan a -y", "plan takes no --yes (only abort, complete, resume, rollback and upgrade do): remove the flag"},
		"a comparison by check":        {"check a --compare", "check takes no --compare: it compares no strategies: use kubectl nodeupgrade plan GROUP --compare"},
		"an abort beside others":       {"abort a --parallel-groups", "abort takes no --parallel-groups: it drains no node"},
		"an abort asked of a server":   {"abort a --dry-run=server", "abort takes no --dry-run: an abort evicts no pod, so there is nothing to ask the API server: use --dry-run=client"},
		"a comparison by a server":     {"a --compare --dry-run=server", "kubectl nodeupgrade takes no --dry-run: a comparison does not ask the API server"},
		"a comparing plan's server":    {"plan a --compare --dry-run=server", "plan takes no --dry-run: a comparison does not ask the API server"},
		"a forecast to carry out":      {"a --forecast=false --yes", "kubectl nodeupgrade takes no --forecast: the flag works only with plans: add --dry-run, or remove the flag"},
		"a forecast of upgrade":        {"upgrade a --forecast=false", "upgrade takes no --forecast: the flag works only with plans"},
		"a context of a dump":          {"simulate --context prod", "simulate takes no --context: it reads a dump, not a cluster: remove the flag"},
		"a context of a checked dump":  {"check -f x --context prod", "check takes no --context: it reads a dump, not a cluster: remove the flag"},
		"a namespace of a dump":        {"simulate --state-namespace x", "simulate takes no --state-namespace: it reads a dump"},
		"a comparison with events":     {"simulate --compare --progress=json", "simulate takes no --progress: a comparison shows no progress: remove the flag"},
		"a simulated screen":           {"simulate --progress=live", "simulate takes no --progress: it runs in virtual time: use plain, json or quiet"},
		"a rule's group":               {"check a --explain PDB001", "--explain shows a rule and needs no group: remove the group"},
		"a rule's format":              {"check --explain PDB001 -o json", "check takes no --output: with --explain it only shows a rule: remove the flag"},
		"a rule's dump":                {"check --explain PDB001 -f x", "check takes no --filename: with --explain it only shows a rule: remove the flag"},
		"an argument of version":       {"version x", "version takes no arguments; got x"},
		"an argument of options":       {"options x", "options takes no arguments; got x"},
	}
	kubeconfig(t, nowhere)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := invoke(t, strings.Fields(c.args)...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, exitUsage, stdout)
			}
			line, ok := strings.CutPrefix(stderr, "error: ")
			if !ok || strings.Count(stderr, "\n") != 1 || !strings.Contains(line, c.want) {
				t.Errorf("stderr %q, want one line with %q", stderr, c.want)
			}
		})
	}
}

func TestFlagsListedAsIgnoredExist(t *testing.T) {
	root, f := newRoot(genericiooptions.NewTestIOStreamsDiscard())
	have := map[string]bool{}
	for _, cmd := range append(root.Commands(), root) {
		cmd.InheritedFlags()
		cmd.Flags().VisitAll(func(flag *pflag.Flag) { have[flag.Name] = true })
		cmd.PersistentFlags().VisitAll(func(flag *pflag.Flag) { have[flag.Name] = true })
	}
	for _, row := range f.listIgnoredFlags(root) {
		if len(row.flags) == 0 {
			t.Errorf("%q is said of no flag", row.because)
		}
		for _, name := range row.flags {
			if !have[name] {
				t.Errorf("no command has --%s", name)
			}
		}
	}
}

// TestDryRunCanBeAddedToEveryUpgradeCommand checks that --dry-run can be added to any command line of an upgrade, whatever consents it
// has.
func TestDryRunCanBeAddedToEveryUpgradeCommand(t *testing.T) {
	kubeconfig(t, nowhere)
	for _, args := range []string{"a --yes --wait --parallel-groups --takeover --rebuild --replan --progress=json --dry-run", "upgrade a -y --keep-fence --progress=plain --dry-run=server"} {
		if _, stderr, code := invoke(t, strings.Fields(args)...); code != exitError || !strings.Contains(stderr, "reaching the API server") {
			t.Errorf("%q: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

// TestValidArgumentsReachTheCluster checks that a valid command line fails only because there is no cluster.
func TestValidArgumentsReachTheCluster(t *testing.T) {
	kubeconfig(t, nowhere)
	for _, args := range []string{
		"", "workers", "nodegroup/workers other --yes", "--node n1 --dry-run=server", "-l a=b,c!=d --current image=v2", "workers --dry-run=none",
		"--outdated -o name", "-o jsonpath={.items[*].metadata.name}", "-o go-template={{.kind}}", "-o markdown", "-o wide", "-o yaml", "status", "status workers -o json",
	} {
		stdout, stderr, code := invoke(t, strings.Fields(args)...)
		isDocument := strings.Contains(args, "json") && !strings.Contains(args, "jsonpath") || strings.Contains(args, "yaml")
		if code != exitError || isDocument != strings.Contains(stdout, "exitCode") || !isDocument && stdout != "" || !strings.HasPrefix(stderr, "error: reaching the API server at "+nowhere) || !strings.HasSuffix(stderr, ": check --context and the network\n") {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// parseRootArgs parses arguments as the root command does.
func parseRootArgs(t *testing.T, args ...string) *commandLine {
	t.Helper()
	f := newFlags(genericiooptions.NewTestIOStreamsDiscard())
	cmd := &cobra.Command{Use: "test"}
	f.addSharedFlags(cmd.Flags())
	f.addPlanFlags(cmd)
	f.addUpgradeFlags(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	line, err := f.parseRootCommand(cmd, cmd.Flags().Args())
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func TestUntypedFlagsStayUnset(t *testing.T) {
	want := upgrade.Settings{BootTimeout: 20 * time.Minute, WaitReplacement: true}
	if got := parseRootArgs(t, "workers").settings; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFlagsAreParsedIntoSettings(t *testing.T) {
	line := parseRootArgs(t,
		"nodegroup/workers", "other", "--strategy=surge", "--like=gke", "--to=ami-1", "--max-unavailable=10%", "--max-surge=2/zone", "--batch-barrier",
		"--drain-timeout=1s", "--on-timeout=skip", "--unmanaged-pods=evict", "--settle=0s", "--boot-timeout=5m", "--keep-max", "--keep-fence",
		"--wait-replacement=false", "--current=a=b,c=", "--dry-run=server",
	)
	second, none := time.Second, time.Duration(0)
	want := upgrade.Settings{
		Like: "gke", Strategy: record.Surge, To: "ami-1", Current: map[string]string{"a": "b", "c": ""},
		MaxUnavailable: quantityOf(t, "10%"), MaxSurge: quantityOf(t, "2/zone"), DrainTimeout: &second, Settle: &none,
		BootTimeout: 5 * time.Minute, OnTimeout: record.Skip, BatchBarrier: true, EvictUnmanaged: true, KeepMax: true, KeepFence: true,
	}
	if !reflect.DeepEqual(line.settings, want) {
		t.Errorf("got %+v, want %+v", line.settings, want)
	}
	if !slices.Equal(line.groups.names, []string{"workers", "other"}) || line.dryRun != dryRunServer {
		t.Errorf("groups %q, dry run %v", line.groups.names, line.dryRun)
	}
}

func quantityOf(t *testing.T, text string) *nodegroup.Quantity {
	t.Helper()
	q, err := nodegroup.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return &q
}

func TestDryRunFlagSelectsClientServerOrNone(t *testing.T) {
	cases := map[string]struct {
		args []string
		want dryRun
	}{
		"not said":              {[]string{"workers"}, dryRunNone},
		"none":                  {[]string{"workers", "--dry-run=none"}, dryRunNone},
		"without a value":       {[]string{"workers", "--dry-run"}, dryRunClient},
		"client":                {[]string{"workers", "--dry-run=client"}, dryRunClient},
		"server":                {[]string{"workers", "--dry-run=server"}, dryRunServer},
		"a group called server": {[]string{"server"}, dryRunNone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := parseRootArgs(t, c.args...).dryRun; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestLabelsAreParsedFromCommaSeparatedPairs(t *testing.T) {
	cases := map[string]struct {
		text string
		want map[string]string
		ok   bool
	}{
		"nothing":        {"", nil, true},
		"one":            {"image=v2", map[string]string{"image": "v2"}, true},
		"two":            {"image=v2,eks.amazonaws.com/nodegroup-image=ami-0abc", map[string]string{"image": "v2", "eks.amazonaws.com/nodegroup-image": "ami-0abc"}, true},
		"blanks":         {"image = v2, a=b", map[string]string{"image": "v2", "a": "b"}, true},
		"an empty value": {"image=", map[string]string{"image": ""}, true},
		"no value":       {"image", nil, false},
		"two signs":      {"image==v2", nil, false},
		"an exclusion":   {"image!=v2", nil, false},
		"no key":         {"=v2", nil, false},
		"a bad key":      {"a b=v2", nil, false},
		"a bad value":    {"image=v/2", nil, false},
		"a loose comma":  {"image=v2,", nil, false},
		"two values":     {"image=v2,a=b,image=v3", nil, false},
		"a value twice":  {"image=v2, image = v2", map[string]string{"image": "v2"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseLabels(c.text)
			if (err == nil) != c.ok || !maps.Equal(got, c.want) {
				t.Errorf("got %v and error %v, want %v", got, err, c.want)
			}
		})
	}
}
