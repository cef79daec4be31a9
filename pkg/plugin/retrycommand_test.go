package plugin

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestRetryCommand holds the command to type to be what was typed, in words of a shell, without
// secrets and without what was agreed to for once.
func TestRetryCommand(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"a group":            {[]string{"workers"}, "kubectl nodeupgrade workers"},
		"two groups":         {[]string{"workers", "nodegroup/web"}, "kubectl nodeupgrade workers nodegroup/web"},
		"flags":              {[]string{"workers", "-y", "--settle", "5s", "--wait-replacement=false"}, "kubectl nodeupgrade workers --settle=5s --wait-replacement=false --yes"},
		"where the run is":   {[]string{"--context=prod", "workers", "--state-namespace", "ops"}, "kubectl nodeupgrade workers --context=prod --state-namespace=ops"},
		"a list":             {[]string{"workers", "--skip-check=PDB001", "--skip-check=TERM001"}, "kubectl nodeupgrade workers --skip-check=PDB001,TERM001"},
		"words of a shell":   {[]string{"-l", "pool in (a, b)", "--current=it's="}, `kubectl nodeupgrade '--current=it'\''s=' '--selector=pool in (a, b)'`},
		"secrets":            {[]string{"workers", "--token=secret", "--yes"}, "kubectl nodeupgrade workers --yes"},
		"agreed to for once": {[]string{"workers", "--replan", "--takeover", "--keep-max"}, "kubectl nodeupgrade workers --keep-max"},
		"a plan":             {[]string{"workers", "--dry-run=server"}, "kubectl nodeupgrade workers"},
		"a verb":             {[]string{"rollback", "workers", "--yes"}, "kubectl nodeupgrade rollback workers --yes"},
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

// TestVerbsNameTheirOwnFlags where there is no terminal to ask at.
func TestVerbsNameTheirOwnFlags(t *testing.T) {
	cases := map[mode]struct {
		again string
		want  string
	}{
		modeUpgrade:  {"kubectl nodeupgrade blue", "run kubectl nodeupgrade blue --yes, or kubectl nodeupgrade blue --dry-run to see what would be done"},
		modeResume:   {"kubectl nodeupgrade resume blue", "run kubectl nodeupgrade resume blue --yes"},
		modeRollback: {"kubectl nodeupgrade rollback blue", "run kubectl nodeupgrade rollback blue --yes, or kubectl nodeupgrade rollback blue --dry-run to see what would be done"},
		modeAbort:    {"kubectl nodeupgrade abort blue", "run kubectl nodeupgrade abort blue --yes, or kubectl nodeupgrade abort blue --dry-run to see what would be done"},
	}
	for w, c := range cases {
		t.Run(string(w), func(t *testing.T) {
			typed := &commandLine{console: console{IOStreams: genericiooptions.NewTestIOStreamsDiscard()}, retry: c.again}
			err := (&command{commandLine: typed}).askUser(confirmation{mode: w})
			if err == nil || !strings.HasSuffix(err.Error(), "to ask at: "+c.want) || exitCodeOf(err) != exitUsage {
				t.Errorf("got error %v with exit code %d, want %q", err, exitCodeOf(err), c.want)
			}
		})
	}
}
