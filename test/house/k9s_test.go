package house

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// k9sFile has the fields of plugins.yaml in k9s v0.51 (its internal/config/json/schemas/plugins.json), except "inputs". Earlier
// versions of k9s do not replace the variables of inputs.
type k9sFile struct {
	Plugins map[string]k9sPlugin `json:"plugins"`
}

type k9sPlugin struct {
	ShortCut        string   `json:"shortCut"`
	Description     string   `json:"description"`
	Scopes          []string `json:"scopes"`
	Command         string   `json:"command"`
	Args            []string `json:"args"`
	Confirm         bool     `json:"confirm"`
	Background      bool     `json:"background"`
	Dangerous       bool     `json:"dangerous"`
	Override        bool     `json:"override"`
	OverwriteOutput bool     `json:"overwriteOutput"`
}

// usedKeys lists the keys that the node view already uses: the keys of k9s v0.51, and the keys with which v0.32 sorts by ROLE, CPU and
// MEM. k9s ignores a plugin with one of these keys. It uses Shift-P itself after a sort.
func usedKeys() []string {
	return []string{
		"c", "d", "e", "q", "r", "s", "u", "y",
		"Ctrl-A", "Ctrl-C", "Ctrl-D", "Ctrl-E", "Ctrl-G", "Ctrl-R", "Ctrl-S", "Ctrl-W", "Ctrl-Z",
		"Shift-A", "Shift-C", "Shift-J", "Shift-M", "Shift-N", "Shift-O", "Shift-P", "Shift-R", "Shift-S",
	}
}

// k9sFaults lists the faults because of which k9s would refuse the file, or because of which its plugins could do damage.
func k9sFaults(text []byte) []string {
	var file k9sFile
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return []string{err.Error()}
	}
	if len(file.Plugins) == 0 {
		return []string{"plugins.yaml holds no plugin"}
	}
	var faults []string
	keys := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(file.Plugins)) {
		plugin := file.Plugins[name]
		if other, ok := keys[plugin.ShortCut]; ok {
			faults = append(faults, fmt.Sprintf("%s: key %s is that of %s", name, plugin.ShortCut, other))
		}
		keys[plugin.ShortCut] = name
		for _, fault := range pluginFaults(plugin) {
			faults = append(faults, name+": "+fault)
		}
	}
	return faults
}

func pluginFaults(p k9sPlugin) []string {
	key := regexp.MustCompile(`^([a-z]|Shift-[A-Z]|Ctrl-[A-Z]|F[0-9]+)$`)
	return failedChecks(
		check{p.ShortCut != "", "shortCut is missing"},
		check{p.ShortCut == "" || key.MatchString(p.ShortCut), "k9s knows no key " + p.ShortCut},
		check{!slices.Contains(usedKeys(), p.ShortCut), "key " + p.ShortCut + " is taken in the node view"},
		check{!p.Override, "override takes a key away from k9s"},
		check{p.Description != "", "description is missing"},
		check{slices.Equal(p.Scopes, []string{"nodes"}), "scopes is not the node view"},
		check{p.Command != "", "command is missing"},
		check{hasFlagValue(p.Args, "--node", "$NAME"), "the selected node is not passed with --node"},
		check{p.Command == "" || p.Command == "env" && len(p.Args) > 0 && p.Args[0] == "KUBECONFIG=$KUBECONFIG", "k9s's kubeconfig is not passed on"},
		check{p.Confirm || !slices.Contains(p.Args, "pause"), "pause does not ask, and k9s is not told to"},
		check{hasFlagValue(p.Args, "--context", "$CONTEXT"), "k9s's context is not passed with --context"},
		check{p.Dangerous || isReadOnly(p.Args), "it changes the cluster, and is not marked dangerous"},
		check{!hasSplicedVariable(p.Args), "a variable is spliced into a script: pass it as an argument"},
	)
}

// check is a condition with the fault that is reported if it is false.
type check struct {
	holds bool
	fault string
}

func failedChecks(checks ...check) []string {
	var faults []string
	for _, c := range checks {
		if !c.holds {
			faults = append(faults, c.fault)
		}
	}
	return faults
}

// hasFlagValue reports whether the argument after the flag is the value.
func hasFlagValue(args []string, flag, value string) bool {
	i := slices.Index(args, flag)
	return i >= 0 && i+1 < len(args) && args[i+1] == value
}

// isReadOnly reports whether the command changes nothing, because it shows only a plan or a status.
func isReadOnly(args []string) bool {
	return slices.Contains(args, "--dry-run") || hasFlagValue(args, "nodeupgrade", "status")
}

// hasSplicedVariable reports whether k9s would replace a variable inside a script. It uses the pattern of k9s's Env.Substitute, which
// matches even $1, but not $@ and $?.
func hasSplicedVariable(args []string) bool {
	variable := regexp.MustCompile(`\$!?[\w-]|\$\{`)
	for i, arg := range args {
		if i > 0 && args[i-1] == "-c" && variable.MatchString(arg) {
			return true
		}
	}
	return false
}

func TestK9sPluginsFileIsValidAndSafe(t *testing.T) {
	reportFaults(t, k9sFaults([]byte(readFile(t, "plugins.yaml"))))
}

func TestFaultyK9sPluginsAreFound(t *testing.T) {
	const good = `plugins:
  run:
    shortCut: Shift-U
    description: Upgrade
    scopes: [nodes]
    command: env
    dangerous: true
    args: [KUBECONFIG=$KUBECONFIG, sh, -c, '"$@"; echo $?', x, kubectl, nodeupgrade, --node, $NAME, --context, $CONTEXT]
`
	cases := map[string]struct{ old, new, want string }{
		"good":                           {"", "", ""},
		"a key with another name":        {"shortCut:", "shortcut-key:", `unknown field "shortcut-key"`},
		"inputs":                         {"command: env", "command: env\n    inputs: []", `unknown field`},
		"another top level":              {"plugins:", "plugin:", `unknown field "plugin"`},
		"no plugin":                      {good, "plugins: {}", "no plugin"},
		"no shortcut":                    {"shortCut: Shift-U\n    ", "", "shortCut is missing"},
		"no description":                 {"description: Upgrade\n    ", "", "description is missing"},
		"no command":                     {"command: env\n    ", "", "command is missing"},
		"no kubeconfig":                  {"KUBECONFIG=$KUBECONFIG, ", "", "kubeconfig is not passed on"},
		"a pause without a question":     {"kubectl, nodeupgrade,", "kubectl, nodeupgrade, pause,", "pause does not ask"},
		"the key that k9s takes":         {"Shift-U", "Shift-P", "key Shift-P is taken"},
		"no scope":                       {"scopes: [nodes]\n    ", "", "not the node view"},
		"another scope":                  {"[nodes]", "[all]", "not the node view"},
		"a key k9s does not know":        {"Shift-U", "shift-u", "knows no key shift-u"},
		"the key that uncordons":         {"Shift-U", "u", "key u is taken"},
		"the key that sorts by name":     {"Shift-U", "Shift-N", "key Shift-N is taken"},
		"a key taken away":               {"dangerous: true", "dangerous: true\n    override: true", "takes a key away"},
		"no context":                     {", --context, $CONTEXT", "", "not passed with --context"},
		"another context":                {"$CONTEXT", "$CLUSTER", "not passed with --context"},
		"no node":                        {"--node, $NAME, ", "", "not passed with --node"},
		"a name spliced into the script": {`echo $?`, `echo $NAME`, "spliced into a script"},
		"in braces":                      {`echo $?`, `echo ${NAME}`, "spliced into a script"},
		"a positional argument":          {`"$@"`, `"$1"`, "spliced into a script"},
		"a change that looks harmless":   {"dangerous: true", "dangerous: false", "not marked dangerous"},
		"a plan is harmless":             {"dangerous: true\n    args: [KUBECONFIG=$KUBECONFIG, sh, -c, '\"$@\"; echo $?', x,", "args: [KUBECONFIG=$KUBECONFIG, --dry-run,", ""},
		"so is a status":                 {"dangerous: true\n    args: [KUBECONFIG=$KUBECONFIG, sh, -c, '\"$@\"; echo $?', x, kubectl, nodeupgrade,", "args: [KUBECONFIG=$KUBECONFIG, nodeupgrade, status,", ""},
		"two plugins on one key":         {good, good + strings.Replace(strings.TrimPrefix(good, "plugins:\n"), "run", "too", 1), "key Shift-U is that of run"},
		"two plugins on a key each":      {good, good + strings.NewReplacer("run", "too", "Shift-U", "Shift-T").Replace(strings.TrimPrefix(good, "plugins:\n")), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(good, c.old) {
				t.Fatalf("the case replaces %q, which the text does not contain", c.old)
			}
			checkFaults(t, k9sFaults([]byte(strings.Replace(good, c.old, c.new, 1))), c.want)
		})
	}
}
