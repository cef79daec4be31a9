package report

import "fmt"

// DescribeGroupChanges returns a line for each group that appeared, disappeared, or has other numbers or
// another phase than before.
func DescribeGroupChanges(before, now *NodeGroupList) []string {
	was := map[string]string{}
	for i := range before.Items {
		was[before.Items[i].Name] = before.Items[i].describe()
	}
	var lines []string
	for i := range now.Items {
		g := &now.Items[i]
		if text := g.describe(); text != was[g.Name] {
			lines = append(lines, g.Name+": "+text)
		}
		delete(was, g.Name)
	}
	for i := range before.Items {
		if name := before.Items[i].Name; was[name] != "" {
			lines = append(lines, name+" is no longer listed")
		}
	}
	return lines
}

// describe returns the group's row as a sentence.
func (g *NodeGroup) describe() string {
	text := formatCount(g.Nodes, "node")
	if g.Outdated == nil {
		text += ", outdated not known"
	} else {
		text += fmt.Sprintf(", %d outdated", *g.Outdated)
	}
	if g.PhaseUnknown {
		text += ", phase not known"
	}
	return text + withPrefix(", phase ", g.Phase) + withPrefix(", refused: ", g.Refusal)
}

// FitLines returns at most height lines, each cut to the width in cells. If lines are left out, the last line
// says so.
func FitLines(lines []string, width, height int) []string {
	height = max(height, 1)
	if left := len(lines) - height; left > 0 {
		lines = append(lines[:height-1:height-1], "and "+formatCount(left+1, "more line")+": this terminal has too few rows")
	}
	fitted := make([]string, 0, len(lines))
	for _, line := range lines {
		fitted = append(fitted, TruncateLine(line, width))
	}
	return fitted
}
