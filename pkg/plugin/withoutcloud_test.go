package plugin

import (
	"strings"
	"testing"
)

// TestStatusOfRecordedUpgradeNeedsNoCredentials shows a status without cloud credentials, and with credentials that have expired.
func TestStatusOfRecordedUpgradeNeedsNoCredentials(t *testing.T) {
	cases := map[string]struct {
		args string
		code int
		says []string
	}{
		"a group that is named":            {"status blue", exitDone, []string{"Group       blue to image=v2, run r1", "Not read", "no credentials found", "aws sso login"}},
		"the only one under way":           {"status", exitDone, []string{"Group       blue to image=v2, run r1", "Not read"}},
		"for programs":                     {"status blue -o json", exitDone, []string{`"run": "r1"`, `"unread": "connecting to AWS: no credentials found`}},
		"a group without a record":         {"status green", exitError, []string{"error: connecting to AWS: no credentials found"}},
		"a node, whose group is not known": {"status --node=b1", exitError, []string{"error: connecting to AWS: no credentials found"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := twoGroups()
			for i := range s.nodes {
				s.nodes[i].Spec.ProviderID = "aws:///us-east-1a/i-0000000000000000" + string(rune('a'+i))
			}
			s.storeRecord(t, "blue", stoppedRecordOf(""))
			s.serve(t)
			for _, unset := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
				t.Setenv(unset, "")
			}
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			t.Setenv("AWS_REGION", "us-east-1")
			t.Setenv("HOME", t.TempDir())
			stdout, stderr, code := invoke(t, strings.Fields(c.args)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, part := range c.says {
				if !strings.Contains(stdout+stderr, part) {
					t.Errorf("stdout %q, stderr %q do not say %q", stdout, stderr, part)
				}
			}
		})
	}
}
