package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stub"
)

func hostileWords() []string {
	return []string{
		"plain", "", "a b", "a  b", "$HOME", "$(touch ran)", "`touch ran`", "; touch ran", "&& touch ran", "| touch ran", "> ran",
		"it's", `"`, `\`, "#", "~", "*", "!", "a\nb", "\ttab", "{a,b}", "(a)", "-x", "--takeover", "--", "ümläut", "é$",
	}
}

// TestWordsReachTheProgram runs each command in a real shell, with a program that records its arguments.
func TestWordsReachTheProgram(t *testing.T) {
	for _, word := range hostileWords() {
		t.Run(word, func(t *testing.T) {
			got := stub.RunCommands(t, "kubectl quote "+shell.Quote(word)+"\n"+shell.Command("kubectl get", "node", word)+"\nkubectl "+shell.Option("--name", word))
			operands := []string{"kubectl", "get", "node", word}
			option := []string{"kubectl", "--name", word}
			if strings.HasPrefix(word, "-") {
				operands = []string{"kubectl", "get", "--", "node", word}
				option = []string{"kubectl", "--name=" + word}
			}
			for i, want := range [][]string{{"kubectl", "quote", word}, operands, option} {
				if len(got) != 3 || !slices.Equal(got[i], want) {
					t.Fatalf("the programs were called with %q, want %q as number %d", got, want, i)
				}
			}
		})
	}
}

// TestStubSeesAnUnquotedWord shows that the test above can fail.
func TestStubSeesAnUnquotedWord(t *testing.T) {
	if got := stub.RunCommands(t, "kubectl get a b"); slices.Equal(got[0], []string{"kubectl", "get", "a b"}) {
		t.Errorf("two words passed for one: %q", got)
	}
}
