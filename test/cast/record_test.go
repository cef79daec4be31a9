package cast

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// textOf returns the rows of a screen without their styles.
func textOf(screen emulator.Screen) string {
	var rows []string
	for _, spans := range screen.Rows {
		row := ""
		for _, s := range spans {
			row += s.Text
		}
		rows = append(rows, row)
	}
	return strings.Join(rows, "\n")
}

// TestRunRecordsTerminalOutput records two commands on a terminal of 80 columns and 24 rows.
func TestRunRecordsTerminalOutput(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	r := New()
	for _, c := range []struct {
		script string
		code   int
	}{
		{`stty size; printf '\033[32mgreen\033[0m\n'; test -t 0 && test -t 1 && test -t 2`, 0},
		{"echo failing; exit 3", 3},
	} {
		code, err := r.Run(c.script, exec.CommandContext(t.Context(), sh, "-c", c.script))
		if err != nil || code != c.code {
			t.Fatalf("%q ended with %d, %v", c.script, code, err)
		}
	}
	last := r.Shots[len(r.Shots)-1]
	if got := textOf(last.Screen); !strings.Contains(got, "\n24 80\ngreen\n\n$ echo failing; exit 3\nfailing") {
		t.Errorf("the terminal shows\n%s", got)
	}
	prompts := 0
	for i, shot := range r.Shots {
		if shot.Prompt {
			prompts++
		}
		if i > 0 && shot.At < r.Shots[i-1].At {
			t.Errorf("shot %d is older than the one before", i)
		}
	}
	if prompts != 2 || !r.Shots[0].Prompt || last.Prompt {
		t.Errorf("%d of %d shots are prompts", prompts, len(r.Shots))
	}
	coloured := false
	for _, row := range last.Screen.Rows {
		coloured = coloured || len(row) == 1 && row[0] == emulator.Span{Text: "green", Cells: 5, Style: emulator.Style{Color: 32}}
	}
	if !coloured {
		t.Errorf("no row is green: %+v", last.Screen.Rows)
	}
}

func TestRunFailsIfProgramIsMissing(t *testing.T) {
	if _, err := New().Run("missing", exec.CommandContext(t.Context(), "/missing/program")); err == nil || !strings.Contains(err.Error(), `starting "missing" on a terminal`) {
		t.Errorf("the error is %v", err)
	}
}

// TestRunRecordsOutputBeforeItScrollsOff: output that arrives at once does not scroll off between two shots.
func TestRunRecordsOutputBeforeItScrollsOff(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	r := New()
	const script = `i=0; while [ $i -lt 60 ]; do text="$text$i\n"; i=$((i+1)); done; printf "$text"`
	if code, err := r.Run("print", exec.CommandContext(t.Context(), sh, "-c", script)); err != nil || code != 0 {
		t.Fatalf("it ended with %d, %v", code, err)
	}
	last := r.Shots[len(r.Shots)-1].Screen
	if want := 62 - Rows; last.Top != want {
		t.Errorf("%d rows have scrolled off, want %d:\n%s", last.Top, want, textOf(last))
	}
	for i := 1; i < len(r.Shots); i++ {
		if by := r.Shots[i].Screen.Top - r.Shots[i-1].Screen.Top; by > 1 {
			t.Errorf("shot %d has scrolled by %d rows", i, by)
		}
	}
}
