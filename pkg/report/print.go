package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Options say how a value is written for people.
type Options struct {
	Style Style
	// Wide adds columns.
	Wide bool
	// Now is what ages are counted to.
	Now time.Time
}

// WriteGroups writes the list of groups.
func WriteGroups(w io.Writer, list *NodeGroupList, o Options) error {
	header := []string{"NAME", "PROVIDER", "NODES", "OUTDATED", "PHASE", "AGE"}
	if o.Wide {
		header = append(header, "KIND", "WANTED", "REFUSED-BECAUSE")
	}
	var rows [][]string
	for i := range list.Items {
		g := &list.Items[i]
		outdated := "?"
		if g.Outdated != nil {
			outdated = strconv.Itoa(*g.Outdated)
		}
		row := []string{g.Name, g.Provider, strconv.Itoa(g.Nodes), outdated, cmp.Or(g.Phase, "-"), formatAge(g.Created, o.Now)}
		if o.Wide {
			row = append(row, g.Kind, cmp.Or(g.Wanted, "-"), cmp.Or(g.Refusal, "-"))
		}
		rows = append(rows, row)
	}
	return WriteTable(w, o.Style, header, rows)
}

func formatAge(since, now time.Time) string {
	return dashUnless(!since.IsZero(), duration.HumanDuration(now.Sub(since)))
}

// WriteStatus writes an upgrade as it stands, on one screen.
func WriteStatus(w io.Writer, s *UpgradeStatus, o Options) error {
	out := page{w: w, style: o.Style}
	out.addLines(statusHeaderLines(s, o.Now)...)
	var rows [][]string
	for _, n := range s.Status.Nodes {
		if n.Batch > 0 || n.State == record.NodeDraining {
			rows = append(rows, []string{n.Name, cmp.Or(n.Zone, "-"), string(n.State), dashUnless(n.Batch > 0, strconv.Itoa(n.Batch)), strconv.Itoa(n.Pods), strconv.Itoa(n.Staying)})
		}
	}
	if len(rows) > 0 {
		out.addLines("")
		out.addTable([]string{"NODE", "ZONE", "STATE", "BATCH", "PODS", "STAYING"}, rows)
	}
	return out.err
}

func statusHeaderLines(s *UpgradeStatus, now time.Time) []string {
	st := &s.Status
	if s.Run == "" {
		head := fmt.Sprintf("Node group %s: no upgrade was started with this tool; ", s.Name)
		if s.Outdated == nil {
			head += "which nodes are outdated is not known: " + s.Unknown
		} else {
			head += fmt.Sprintf("%d outdated", *s.Outdated)
		}
		return slices.Concat([]string{head}, operationLines(s), LeftoverLines(s.Leftovers))
	}
	lines := []string{
		fmt.Sprintf("Node group %s, run %s to %s, started %s ago", s.Name, s.Run, s.Target.Name, formatAge(s.Started, now)),
		fmt.Sprintf("Phase       %s, for %s", st.Phase, formatAge(st.Since, now)),
		fmt.Sprintf("Progress    %d of %d nodes replaced, %d not started", st.Replaced, st.Total, st.Outdated),
		fmt.Sprintf("Held by     %s", cmp.Or(s.Holder, "-")),
	}
	lines = append(lines, operationLines(s)...)
	if s.Unread != "" {
		lines = append(lines, "Not read    the group, only what the cluster tells: "+s.Unread)
	}
	lines = append(lines, resultLines(s)...)
	if st.Waiting != "" {
		lines = append(lines, "Waits for   "+st.Waiting)
	}
	for _, w := range CollectWaits(s.Blocked, now) {
		lines = append(lines, fmt.Sprintf("Blocked     node %s%s%s: %s", w.Node, w.formatDuration(now), w.formatLimit(s.Status.Manager, now), w))
	}
	for _, line := range ImpactLines(s.Impacts) {
		lines = append(lines, "Workloads   "+line)
	}
	lines = append(lines, restLines(&s.Rest, st.Manager, now)...)
	if st.Owed > 0 {
		lines = append(lines, "Still ours  "+formatCount(st.Owed, "added node"))
	}
	if len(s.Suspended) > 0 {
		lines = append(lines, "Still ours  suspended "+strings.Join(s.Suspended, ", "))
	}
	return append(lines, LeftoverLines(s.Leftovers)...)
}

// resultLines say how an upgrade stopped, none of one under way.
func resultLines(s *UpgradeStatus) []string {
	switch s.Result {
	case "":
		return nil
	case record.Waiting:
		what := "the soak"
		switch s.Status.Phase {
		case record.PhaseExpire:
			what = "outdated nodes to end"
		case record.PhaseWait:
			what = "the end of the time before the drain"
		}
		return []string{fmt.Sprintf("Waits for   %s, and no process has to run meanwhile: %s", what, s.Message)}
	default:
		return []string{fmt.Sprintf("Ended       %s%s", s.Result, withPrefix(": ", s.Message))}
	}
}

// operationLines tell of the newest operation of a group that its own cloud upgrades.
func operationLines(s *UpgradeStatus) []string {
	if s.Operation == nil {
		return nil
	}
	return []string{"Operation   " + describeOperation(s.Operation)}
}

// LeftoverLines are leftovers for people, a line each.
func LeftoverLines(all []Leftover) []string {
	var lines []string
	for _, l := range all {
		lines = append(lines, "Leftover    "+l.What+": "+l.Remedy)
	}
	return lines
}
