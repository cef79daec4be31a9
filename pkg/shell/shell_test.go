package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stub"
)

// TestQuotedWordsReachTheProgram runs each command in a real shell, with a program that records its arguments (S37).
func TestQuotedWordsReachTheProgram(t *testing.T) {
	for _, word := range stub.HostileWords() {
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

// TestUnprintableCharactersAreEscaped checks that a command is one line of characters that a terminal shows.
func TestUnprintableCharactersAreEscaped(t *testing.T) {
	for _, word := range []string{"a\nb", "a\tb\n'c", "\x1b[2J", "a\u202eb", "a\u00a0b"} {
		if got := shell.Quote(word); strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q is quoted as %q", word, got)
		}
	}
}

// TestCheckDetectsUnquotedWords proves that the tests above can fail.
func TestCheckDetectsUnquotedWords(t *testing.T) {
	if got := stub.RunCommands(t, "kubectl get a b"); slices.Equal(got[0], []string{"kubectl", "get", "a b"}) {
		t.Errorf("two words passed for one: %q", got)
	}
}
