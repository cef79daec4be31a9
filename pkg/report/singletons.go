package report

import (
	"fmt"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Disruption counts the evictions, and lists the workloads whose users will notice the upgrade.
type Disruption struct {
	// Evictions counts the pods that are evicted. It is nil if there is no forecast.
	Evictions *int `json:"evictions,omitempty"`
	// Singletons lists the workloads whose only ready pod must move. Slow lists the workloads whose pods take
	// long to become ready. Both contain only workloads with pods on outdated nodes.
	Singletons []Singleton    `json:"singletons,omitempty"`
	Slow       []SlowWorkload `json:"slow,omitempty"`
}

// Singleton is a workload whose only ready pod must leave its node.
type Singleton struct {
	// Name is NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Moves is how the pod leaves: by eviction, or by a rolling restart of its Deployment.
	Moves record.Move `json:"moves"`
	// Gap is how long the workload will have no ready pod if its new pod takes as long as usual. It is zero if
	// there is no gap.
	Gap record.Duration `json:"gap,omitzero"`
	// Why is the reason why a rolling restart would not help. It is "" if it would help.
	Why string `json:"why,omitempty"`
}

// SlowWorkload is a workload whose pods take long to become ready.
type SlowWorkload struct {
	// Name is NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Ready is how long its pods take from their creation until they are ready.
	Ready record.Duration `json:"ready"`
}

// maxNamedWorkloads is how many workloads a line names.
const maxNamedWorkloads = 5

// workloadLines returns the workloads that users will notice, and the changes that avoid this.
func workloadLines(p *Plan) []string {
	var lines, restarted, evicted, could []string
	for _, s := range p.Singletons {
		switch {
		case s.Moves == record.MoveBySurge:
			restarted = append(restarted, s.Name)
		case s.Why == "":
			could = append(could, fmt.Sprintf("%s (%s)", s.Name, formatGap(s)))
		default:
			evicted = append(evicted, fmt.Sprintf("%s (%s, %s)", s.Name, formatGap(s), s.Why))
		}
	}
	if len(restarted) > 0 {
		lines = append(lines, "Restarts    "+JoinFew(restarted)+": spec.template.metadata.annotations is set, as kubectl rollout restart does, so that another pod is ready before the old one leaves")
	}
	if len(could) > 0 {
		lines = append(lines, "Gaps        one replica only: "+JoinFew(could)+". --move=surge avoids it")
	}
	if len(evicted) > 0 {
		lines = append(lines, "Gaps        one replica only: "+JoinFew(evicted))
	}
	if len(p.Slow) > 0 {
		var slow []string
		for _, w := range p.Slow {
			slow = append(slow, fmt.Sprintf("%s (%s)", w.Name, w.Ready))
		}
		lines = append(lines, "Slow        "+JoinFew(slow)+": if their new pods take more than twice that time, the next node must wait")
	}
	return lines
}

func formatGap(s Singleton) string {
	if s.Gap.Duration == 0 {
		return "down for an unknown time"
	}
	return "down for about " + formatSeconds(s.Gap.Duration)
}

// JoinFew joins the first names and counts the others: "a, b and 3 more".
func JoinFew(names []string) string {
	if more := len(names) - maxNamedWorkloads; more > 0 {
		return strings.Join(names[:maxNamedWorkloads], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
