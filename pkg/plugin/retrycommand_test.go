package plugin

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stub"
)

// TestRetryCommandRepeatsTypedWordsQuoted: the command omits secrets, and consents that were given for one command only.
func TestRetryCommandRepeatsTypedWordsQuoted(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"a group":             {[]string{"workers"}, "kubectl nodeupgrade workers"},
		"two groups":          {[]string{"workers", "nodegroup/web"}, "kubectl nodeupgrade workers nodegroup/web"},
		"flags":               {[]string{"workers", "-y", "--settle", "5s", "--wait-replacement=false"}, "kubectl nodeupgrade workers --settle=5s --wait-replacement=false --yes"},
		"where the run is":    {[]string{"--context=prod", "workers", "--state-namespace", "ops"}, "kubectl nodeupgrade workers --context=prod --state-namespace=ops"},
		"a list":              {[]string{"workers", "--skip-check=PDB001", "--skip-check=TERM001"}, "kubectl nodeupgrade workers --skip-check=PDB001 --skip-check=TERM001"},
		"words of a shell":    {[]string{"-l", "pool in (a, b)", "--current=it's="}, `kubectl nodeupgrade '--current=it'\''s=' '--selector=pool in (a, b)'`},
		"two users' groups":   {[]string{"workers", "--as-group=a", "--as-group=b"}, "kubectl nodeupgrade workers --as-group=a --as-group=b"},
		"a group with a dash": {[]string{"--", "--yes"}, "kubectl nodeupgrade nodegroup/--yes"},
		"a group like a verb": {[]string{"--", "abort"}, "kubectl nodeupgrade nodegroup/abort"},
		"secrets":             {[]string{"workers", "--token=secret", "--yes"}, "kubectl nodeupgrade workers --yes"},
		"agreed to for once":  {[]string{"workers", "--replan", "--takeover", "--keep-max"}, "kubectl nodeupgrade workers --keep-max"},
		"a plan":              {[]string{"workers", "--dry-run=server"}, "kubectl nodeupgrade workers"},
		"a verb":              {[]string{"rollback", "workers", "--yes"}, "kubectl nodeupgrade rollback workers --yes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			root := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
			cmd, args, err := root.Find(c.args)
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.ParseFlags(args); err != nil {
				t.Fatal(err)
			}
			if got := makeRetryCommand(cmd, cmd.Flags().Args()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// parseCall parses the arguments with which kubectl calls a plugin.
func parseCall(t *testing.T, call []string) *cobra.Command {
	t.Helper()
	root := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	if len(call) < 2 || call[0] != "kubectl" || call[1] != "nodeupgrade" {
		t.Fatalf("the shell ran %q", call)
	}
	cmd, args, err := root.Find(call[2:])
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err != nil {
		t.Fatalf("parsing %q: %v", call, err)
	}
	return cmd
}

// TestPrintedCommandsNameTheirGroup runs printed commands in a real shell.
func TestPrintedCommandsNameTheirGroup(t *testing.T) {
	words := slices.DeleteFunc(append(stub.HostileWords(), "help", "completion", "nodegroup/workers"), func(word string) bool { return word == "" })
	for _, verb := range NewCommand(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		words = append(words, verb.Name())
	}
	for _, verb := range []string{"", "status", "resume", "rollback", "complete", "abort"} {
		t.Run(verb, func(t *testing.T) {
			var script strings.Builder
			for _, word := range words {
				script.WriteString(nodegroup.Command(verb, word) + " -o json\n")
			}
			calls := stub.RunCommands(t, script.String())
			if len(calls) != len(words) {
				t.Fatalf("%d commands ran, want %d", len(calls), len(words))
			}
			for i, call := range calls {
				cmd := parseCall(t, call)
				chosen, err := parseGroups(cmd.Flags().Args(), groupSelection{}, "aws")
				if err != nil || !slices.Equal(chosen.names, words[i:i+1]) || cmd.Name() != cmp.Or(verb, "kubectl-nodeupgrade") || !cmd.Flags().Changed("output") {
					t.Errorf("%q runs %s for groups %q (%v), want %s for %q", call, cmd.Name(), chosen.names, err, verb, words[i])
				}
			}
		})
	}
}

// TestPrintedCommandsSelectLabelledNodes runs printed commands about groups whose name is a selector.
func TestPrintedCommandsSelectLabelledNodes(t *testing.T) {
	selectors := []string{"pool=two1", "pool in (tgr,tgrx)", "pool==a,!x", "pool!=a", "a,b"}
	for _, verb := range []string{"", "status", "resume", "rollback", "complete", "abort"} {
		var script strings.Builder
		for _, selector := range selectors {
			script.WriteString(nodegroup.Command(verb, selector) + " -o json\n")
		}
		calls := stub.RunCommands(t, script.String())
		if len(calls) != len(selectors) {
			t.Fatalf("%d commands ran, want %d", len(calls), len(selectors))
		}
		for i, call := range calls {
			cmd := parseCall(t, call)
			got, _ := cmd.Flags().GetString("selector")
			if got != selectors[i] || len(cmd.Flags().Args()) > 0 || cmd.Name() != cmp.Or(verb, "kubectl-nodeupgrade") {
				t.Errorf("%q runs %s for selector %q and groups %q, want %s for %q", call, cmd.Name(), got, cmd.Flags().Args(), verb, selectors[i])
			}
			if verb == "" && !cmd.Flags().Changed("current") {
				t.Errorf("%q does not say which nodes are current", call)
			}
		}
	}
}

// TestRetryCommandQuotesSpecialCharacters parses a command line, runs its retry command in a real shell, and parses that.
func TestRetryCommandQuotesSpecialCharacters(t *testing.T) {
	for _, word := range stub.HostileWords() {
		t.Run(word, func(t *testing.T) {
			typed := []string{"kubectl", "nodeupgrade", "--selector=" + word, "--context", word, "--state-namespace=" + word, "--as-group=" + word, "--as-group=x,y", "--ignore-unready=a,b"}
			if word != "" {
				typed = append(typed, "--", word)
			}
			first := parseCall(t, typed)
			if list, ok := first.Flags().Lookup("ignore-unready").Value.(pflag.SliceValue); !ok || list.Replace([]string{"shop/Deployment/" + word, "x,y"}) != nil {
				t.Fatal("the flag is no list")
			}
			calls := stub.RunCommands(t, makeRetryCommand(first, first.Flags().Args())+" --yes")
			if len(calls) != 1 {
				t.Fatalf("the shell ran %q", calls)
			}
			second := parseCall(t, calls[0])
			if !second.Flags().Changed("yes") || second.Name() != first.Name() {
				t.Errorf("%q runs %s", calls[0], second.Name())
			}
			first.Flags().Visit(func(f *pflag.Flag) {
				if got := second.Flags().Lookup(f.Name).Value.String(); got != f.Value.String() {
					t.Errorf("--%s is %q, want %q", f.Name, got, f.Value)
				}
			})
			want, _ := parseGroups(first.Flags().Args(), groupSelection{}, "aws")
			if got, err := parseGroups(second.Flags().Args(), groupSelection{}, "aws"); err != nil || !slices.Equal(got.names, want.names) {
				t.Errorf("the groups are %q (%v), want %q", got.names, err, want.names)
			}
		})
	}
}

// TestErrorsKeepSpacesInNames checks that a printed command still has the name that was quoted.
func TestErrorsKeepSpacesInNames(t *testing.T) {
	if got, want := sanitizeLine(" run\n  "+nodegroup.Command("abort", "a  b\nc")+" \x1b[2J"), `run kubectl nodeupgrade abort "$(printf 'a  b\012c')" ^[[2J`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestErrorWithoutTerminalSuggestsYesOrDryRun checks errors of verbs that need a terminal for their question.
func TestErrorWithoutTerminalSuggestsYesOrDryRun(t *testing.T) {
	cases := map[mode]struct {
		again string
		want  string
	}{
		modeUpgrade:  {"kubectl nodeupgrade blue", "run kubectl nodeupgrade blue --yes, or kubectl nodeupgrade blue --dry-run to see what would be done"},
		modeResume:   {"kubectl nodeupgrade resume blue", "run kubectl nodeupgrade resume blue --yes"},
		modeRollback: {"kubectl nodeupgrade rollback blue", "run kubectl nodeupgrade rollback blue --yes, or kubectl nodeupgrade rollback blue --dry-run to see what would be done"},
		modeComplete: {"kubectl nodeupgrade complete blue", "run kubectl nodeupgrade complete blue --yes"},
		modeAbort:    {"kubectl nodeupgrade abort blue", "run kubectl nodeupgrade abort blue --yes, or kubectl nodeupgrade abort blue --dry-run to see what would be done"},
	}
	for w, c := range cases {
		t.Run(string(w), func(t *testing.T) {
			typed := &commandLine{console: console{IOStreams: genericiooptions.NewTestIOStreamsDiscard()}, retryCommand: c.again}
			err := (&command{line: typed}).requireConsent(confirmation{mode: w})
			if err == nil || !strings.HasSuffix(err.Error(), "a question needs a terminal: "+c.want) || exitCodeOf(err) != exitUsage {
				t.Errorf("got error %v with exit code %d, want %q", err, exitCodeOf(err), c.want)
			}
			asked := parseCall(t, strings.Fields(c.again))
			if has := asked.Flags().Lookup("dry-run") != nil; has != strings.Contains(c.want, "--dry-run") {
				t.Errorf("it is %t that the command has --dry-run, and it says %q", has, c.want)
			}
		})
	}
}

// TestNoteAfterErrorNamesFlagsThatItsCommandsLack: without these flags, the commands in the error would use another
// cluster.
func TestNoteAfterErrorNamesFlagsThatItsCommandsLack(t *testing.T) {
	flags := []string{"--context=prod b", "--kubeconfig=/tmp/k"}
	for text, want := range map[string]string{
		"run kubectl uncordon n1":                                      "note: add '--context=prod b' --kubeconfig=/tmp/k to the commands above that do not have it",
		"run kubectl nodeupgrade '--context=prod b' workers":           "",
		"run kubectl nodeupgrade '--context=prod b'; kubectl cordon n": "note: add '--context=prod b' --kubeconfig=/tmp/k to the commands above that do not have it",
		"no node matches": "",
	} {
		if got := noteMissingFlags(text, flags); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := noteMissingFlags(text, nil); got != "" {
			t.Errorf("%q of the current context: %q", text, got)
		}
	}
}
