package report

import (
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// tone is how much attention a text wants. Colour never carries the meaning alone.
type tone int

const (
	calm tone = iota
	good
	warning
	bad
)

// paint colours a text by its tone, each of its lines by itself.
func (p *page) paint(t tone, text string) string {
	codes := map[tone]string{good: "32", warning: "33", bad: "31"}
	code, coloured := codes[t]
	if !coloured || !p.Color || p.Style != Plain {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.TrimRight(line, " ")
		lines[i] = "\x1b[" + code + "m" + words + "\x1b[0m" + line[len(words):]
	}
	return strings.Join(lines, "\n")
}

// toneOfLabel is the tone of a line with that label.
func toneOfLabel(label string) tone {
	switch label {
	case "Refused", "Blocked", "Error", "Stuck", "Begins", "Deletes":
		return bad
	case "Warning", "Not known", "Not read", "Gives back", "Suspended", "Leftover":
		return warning
	default:
		return calm
	}
}

// toneOfSeverity is the tone of the severity of a finding.
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

// toneOfBlocker is bad for what blocks a node.
func toneOfBlocker(cell string) tone {
	if cell == "-" || cell == "" {
		return calm
	}
	return bad
}
