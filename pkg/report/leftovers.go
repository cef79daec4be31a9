package report

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// FindSuspendedProcesses returns a leftover if an upgrade that no longer runs has left processes of the group
// suspended.
func FindSuspendedProcesses(g *nodegroup.Group, rec *record.Record) []Leftover {
	left := ListStillSuspended(rec.Suspended, g.Suspended)
	if rec.IsRunning() || rec.Result == record.Waiting || len(left) == 0 {
		return nil
	}
	remedy := nodegroup.InfoOf(g.Provider).ResumeCommand(g.Name, left)
	if rec.IsResumable() {
		remedy = nodegroup.Command("abort", g.Name) + " resumes them"
	}
	return []Leftover{{What: fmt.Sprintf("group %s: run %s suspended %s", g.Name, rec.Run, strings.Join(left, ", ")), Remedy: remedy}}
}

// FindUnreadableMarks lists the annotations of this tool that cannot be read, with the commands that remove
// them.
func FindUnreadableMarks(nodes []*corev1.Node) []Leftover {
	var found []Leftover
	for _, node := range nodes {
		if unreadable := nodemark.FindUnreadable(node); unreadable != nil {
			found = append(found, Leftover{
				What:   fmt.Sprintf("annotation %s of node %s cannot be read (%v)", unreadable.Annotation, node.Name, unreadable.Err),
				Remedy: unreadable.Remedy(),
			})
		}
	}
	slices.SortFunc(found, func(a, b Leftover) int { return strings.Compare(a.What, b.What) })
	return found
}

// FindOrphanedNodes returns the nodes with marks of a run that no upgrade continues and whose record does not
// name them. records are the records in the namespace. If a mark names another namespace, the remedy is to
// look there before the mark is removed.
func FindOrphanedNodes(nodes []*corev1.Node, records map[string]record.Record, namespace string) []Leftover {
	runs, groups := map[string]record.Record{}, map[string]string{}
	for group, record := range records {
		runs[record.Run], groups[record.Run] = record, group
	}
	var found []Leftover
	for _, node := range nodes {
		run, what := node.Annotations[nodemark.AnnotationRun], "marked"
		switch {
		case run == "":
			run, what = node.Annotations[nodemark.AnnotationHeld], "kept from autoscalers"
		case nodegroup.IsClosed(node):
			what = "fenced"
		}
		record, known := runs[run]
		_, named := record.Nodes[node.Name]
		if known && !record.IsResumable() && record.IsCloudless() && hasLabels(node, record.Request.Current) {
			found = append(found, Leftover{
				What:   fmt.Sprintf("node %s is current but still fenced by run %s, which has ended", node.Name, run),
				Remedy: fmt.Sprintf("run %s to allow pods on it again", nodegroup.Command("abort", groups[run])),
			})
			continue
		}
		if run == "" || known && (record.IsResumable() || named) {
			continue
		}
		left := Leftover{
			What:   fmt.Sprintf("node %s is %s by run %s, which no upgrade continues", node.Name, what, run),
			Remedy: CleanupCommand(node),
		}
		if owner, named := nodemark.ReadOwner(node); named && owner.Namespace != namespace {
			left.What = fmt.Sprintf("node %s is %s by run %s of group %s, which is recorded in namespace %s", node.Name, what, run, owner.Group, owner.Namespace)
			left.Remedy = fmt.Sprintf("if %s shows no such upgrade: %s", "kubectl nodeupgrade status "+shell.Quote("--state-namespace="+owner.Namespace), left.Remedy)
		}
		found = append(found, left)
	}
	slices.SortFunc(found, func(a, b Leftover) int { return strings.Compare(a.What, b.What) })
	return found
}

// hasLabels reports whether the node has all wanted labels. It returns false if none is wanted.
func hasLabels(node *corev1.Node, wanted map[string]string) bool {
	return len(wanted) > 0 && labels.SelectorFromSet(wanted).Matches(labels.Set(node.Labels))
}

// CleanupCommand returns the command line that removes the marks of this tool from a node.
func CleanupCommand(node *corev1.Node) string {
	var fences []corev1.Taint
	for _, provider := range nodegroup.Providers() {
		fences = append(fences, provider.FenceTaint)
	}
	return nodemark.CleanupCommand(node, fences)
}

// StillFencedLines returns a line for each node that is still fenced by the run, with the command that removes
// the fence. It is printed if a run ends and could not do this itself.
func StillFencedLines(nodes []*corev1.Node, run string) []string {
	var lines []string
	for _, node := range nodes {
		if node.Annotations[nodemark.AnnotationRun] == run {
			lines = append(lines, fmt.Sprintf("node %s is still fenced: run %s", node.Name, CleanupCommand(node)))
		}
	}
	slices.Sort(lines)
	return lines
}

// ListStillSuspended returns the processes that this tool suspended and that are still suspended.
func ListStillSuspended(ours, now []string) []string {
	return slices.DeleteFunc(slices.Clone(ours), func(process string) bool { return !slices.Contains(now, process) })
}
