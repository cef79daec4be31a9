package plugin

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestMissingDataIsReportedAsUnknown runs commands without a needed flag, without a permission, or on a dump that lacks a
// kind. Each command must report what is unknown, or fail. It must not print a zero, an empty name or "Nothing to do"
// instead.
func TestMissingDataIsReportedAsUnknown(t *testing.T) {
	const (
		current = "--current=image=v2"
		unknown = "it is unknown which"
		role    = "ask for a role that allows it"
	)
	dump := closedBudget().writeDump(t)
	for _, c := range []struct {
		command, forbidden, says string
		code                     int
	}{
		{"", "", "It is unknown which nodes of blue, green are outdated: pass --current KEY=VALUE", 0},
		{"-o json", "", `"refusal": "which nodes are current is unknown: pass --current KEY=VALUE"`, 0},
		{"", "nodes", "nodes is forbidden: " + role, 1},
		{current, "configmaps", "warning: phases are unknown: ", 0},
		{"status blue", "", unknown + " nodes are outdated", 0},
		{"status blue -o json", "", `"unknown": "pass --current KEY=VALUE, a label of current nodes"`, 0},
		{"status -l kops.k8s.io/instancegroup=blue", "", unknown + " nodes are outdated", 0},
		{"status blue " + current, "pods", "pods is forbidden: " + role, 1},
		{"status blue " + current, "poddisruptionbudgets", "poddisruptionbudgets is forbidden: " + role, 1},
		{"status blue " + current, "configmaps", "configmaps is forbidden: " + role, 1},
		{"status", "configmaps", "configmaps is forbidden: " + role, 1},
		{"check blue", "", unknown + " of its 2 nodes are outdated", 3},
		{"check blue -o json", "", "which nodes are current is unknown", 3},
		{"check blue " + current, "pods", "pods is forbidden: " + role, 1},
		{"check blue " + current, "services statefulsets persistentvolumeclaims", "Not known   23 rules not checked, or only in part: you may not list persistentvolumeclaims, services, statefulsets", 3},
		{"check blue -f " + dump, "", "rules not checked, or only in part: the dump has no configmaps", 3},
		{"simulate blue -f " + dump, "", "Assumed     no pod is the last ready one behind a Service (the upgrade would keep such a pod until another is ready): the dump has no services", 3},
		{"simulate blue -o json -f " + dump, "", "the dump has no services", 3},
		{"blue --dry-run", "", "Target      not known\n", 3},
		{"blue --dry-run -o json", "", "which nodes are current is unknown", 3},
		{"blue --dry-run " + current, "services", "Not known   17 rules not checked, or only in part", 3},
		{"blue --dry-run " + current, "namespaces", "namespaces is forbidden: " + role, 1},
		{"blue --dry-run -o json " + current, "poddisruptionbudgets", "poddisruptionbudgets is forbidden: " + role, 1},
	} {
		t.Run(strings.TrimSpace(c.command+" "+c.forbidden), func(t *testing.T) {
			s := closedBudget()
			s.withLeases()
			leases, forbids := s.refuse, forbidding(strings.Fields(c.forbidden)...)
			s.refuse = func(w http.ResponseWriter, r *http.Request) bool { return forbids(w, r) || leases(w, r) }
			s.serve(t)
			stdout, stderr, code := invoke(t, strings.Fields(c.command)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, c.code, c.says, stdout, stderr)
			}
			if code == exitError && strings.TrimSpace(stdout) != "" && !strings.Contains(stdout, `"kind": "Error"`) {
				t.Errorf("it ends with an error, and prints\n%s", stdout)
			}
			if strings.Contains(c.says, "current") { // nothing in the group can be counted
				if found := inventedClaims().FindString(stdout); found != "" {
					t.Errorf("the output claims %q although it is unknown:\n%s", found, stdout)
				}
			}
		})
	}
}

// inventedClaims returns a pattern for texts that would claim more about the group than its nodes.
func inventedClaims() *regexp.Regexp {
	return regexp.MustCompile(`\b0 (of|outdated)|Nothing to do|"(id|name)": ""|"(outdated|evictions|extraInstanceHours|desired|max)": |"result": "succeeded"|are current \(`)
}
