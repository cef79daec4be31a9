package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// abandoned is an upgrade whose holder is gone without having brought it to rest, as a list of one
// or none.
func abandoned(group string, record *upgrade.Record, l leaseState) []report.Leftover {
	if !record.Running() || !l.isFree() {
		return nil
	}
	what := fmt.Sprintf("run %s of group %s stopped without coming to rest", record.Run, group)
	if l.holder != "" {
		what += fmt.Sprintf(" (%s was last seen at %s)", l.holder, l.renewed.Format(time.RFC3339))
	}
	remedy := fmt.Sprintf("run kubectl nodeupgrade resume %s to continue, or kubectl nodeupgrade abort %s to undo it", group, group)
	if verb := record.Undoing(); verb != "" {
		remedy = fmt.Sprintf("run kubectl nodeupgrade %s %s to continue", verb, group)
	}
	return []report.Leftover{{What: what, Remedy: remedy}}
}

// suspended are the processes of a group that an upgrade which is at rest has suspended, as a list
// of one or none.
func suspended(g *nodegroup.Group, record *upgrade.Record) []report.Leftover {
	left := stillSuspended(record.Suspended, g.Suspended)
	if record.Running() || len(left) == 0 {
		return nil
	}
	remedy := nodegroup.InfoOf(g.Provider).ResumeCommand(g.Name, left)
	if record.Resumable() {
		remedy = fmt.Sprintf("kubectl nodeupgrade abort %s resumes them", g.Name)
	}
	return []report.Leftover{{What: fmt.Sprintf("group %s: run %s suspended %s", g.Name, record.Run, strings.Join(left, ", ")), Remedy: remedy}}
}

// strays are the nodes with marks of a run that no record goes on with or names them in, as one
// that quarantined them does.
func strays(nodes []*corev1.Node, records map[string]upgrade.Record) []report.Leftover {
	runs := map[string]upgrade.Record{}
	for _, record := range records {
		runs[record.Run] = record
	}
	var found []report.Leftover
	for _, node := range nodes {
		run, what := node.Annotations[nodemark.AnnotationRun], "fenced"
		if run == "" {
			run, what = node.Annotations[nodemark.AnnotationHeld], "kept from autoscalers"
		}
		record, known := runs[run]
		_, named := record.Nodes[node.Name]
		if run == "" || known && (record.Resumable() || named) {
			continue
		}
		found = append(found, report.Leftover{
			What:   fmt.Sprintf("node %s is %s by run %s, which no upgrade continues", node.Name, what, run),
			Remedy: unmarking(node),
		})
	}
	slices.SortFunc(found, func(a, b report.Leftover) int { return strings.Compare(a.What, b.What) })
	return found
}

// unmarking is the command line that takes our marks from a node.
func unmarking(node *corev1.Node) string {
	var steps []string
	if node.Annotations[nodemark.AnnotationRun] != "" {
		steps = append(steps, "kubectl uncordon "+node.Name)
	}
	for _, taint := range fenceTaints() {
		if nodemark.HasTaint(node, taint) {
			steps = append(steps, fmt.Sprintf("kubectl taint node %s %s:NoSchedule-", node.Name, taint.Key))
		}
	}
	if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; excluded {
		steps = append(steps, fmt.Sprintf("kubectl label node %s %s-", node.Name, corev1.LabelNodeExcludeBalancers))
	}
	marks := ""
	if _, held := node.Annotations[nodemark.AnnotationHeld]; held {
		marks = " " + nodemark.AnnotationNoScaleDown + "-"
	}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		if strings.HasPrefix(key, nodemark.Domain+"/") {
			marks += " " + key + "-"
		}
	}
	return strings.Join(append(steps, fmt.Sprintf("kubectl annotate node %s%s", node.Name, marks)), " && ")
}

// fenceTaints are the taints that fences use, each once.
func fenceTaints() []corev1.Taint {
	var taints []corev1.Taint
	for _, provider := range nodegroup.Providers() {
		if !slices.Contains(taints, provider.FenceTaint) {
			taints = append(taints, provider.FenceTaint)
		}
	}
	return taints
}

// groupLeftovers are those of one group.
func (s *session) groupLeftovers(ctx context.Context, g *groupContext, state recordedState) ([]report.Leftover, error) {
	records, err := s.loadRecords(ctx)
	if err != nil {
		return nil, err
	}
	var own []*corev1.Node
	for i := range g.members {
		if node := g.members[i].Node; node != nil {
			own = append(own, node)
		}
	}
	return slices.Concat(abandoned(g.group.Name, &state.record, state.lease), suspended(&g.group, &state.record), strays(own, records)), nil
}

// allLeftovers are those of all groups that there are records of, and of all nodes.
func (s *session) allLeftovers(ctx context.Context, records map[string]upgrade.Record) ([]report.Leftover, error) {
	groups, err := s.provider.Groups(ctx, s.view.Nodes)
	if err != nil {
		return nil, err
	}
	var found []report.Leftover
	for _, name := range slices.Sorted(maps.Keys(records)) {
		record := records[name]
		lease, err := s.loadLease(ctx, name)
		if err != nil {
			return nil, err
		}
		found = append(found, abandoned(name, &record, lease)...)
		if i := slices.IndexFunc(groups, func(g nodegroup.Group) bool { return g.Name == name }); i >= 0 {
			found = append(found, suspended(&groups[i], &record)...)
		}
	}
	return append(found, strays(s.view.Nodes, records)...), nil
}
