package report

import (
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// tone is how urgent a text is. Colours show the tone, but the words alone must show it, too.
type tone int

const (
	calm tone = iota
	good
	warning
	bad
)

// paint colours each line of a text by its tone. It returns a calm text unchanged, and any text if colours are
// off.
func (o Options) paint(t tone, text string) string {
	codes := map[tone]string{good: "32", warning: "33", bad: "31"}
	code, coloured := codes[t]
	if !coloured || !o.Color || o.Style != Plain {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.TrimRight(line, " ")
		lines[i] = "\x1b[" + code + "m" + words + "\x1b[0m" + line[len(words):]
	}
	return strings.Join(lines, "\n")
}

// toneOfLabel returns the tone of lines with the label.
func toneOfLabel(label string) tone {
	switch label {
	case "Refused", "Blocked", "Error", "Stuck", "Begins", "Deletes", "Loses":
		return bad
	case "Warning", "Not known", "Not read", "Gives back", "Keeps", "Suspended", "Leftover":
		return warning
	default:
		return calm
	}
}

// toneOfSeverity returns the tone of findings with the severity.
func toneOfSeverity(severity string) tone {
	switch preflight.Severity(severity) {
	case preflight.Refuse, preflight.Block, preflight.Error:
		return bad
	case preflight.Warn, preflight.Unknown:
		return warning
	default:
		return calm
	}
}

// toneOfBlocker returns bad for a cell that names a blocker, and calm otherwise.
func toneOfBlocker(cell string) tone {
	if cell == "-" || cell == "" {
		return calm
	}
	return bad
}
