package report

import (
	"fmt"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Moves are the pods that have to leave, and the workloads that will be noticed to move.
type Moves struct {
	// Evictions counts the pods; nil where nothing is forecast.
	Evictions *int `json:"evictions,omitempty"`
	// Singletons are the workloads whose only ready pod has to leave, Slow those whose pods take
	// long to become ready; of either those with pods on outdated nodes.
	Singletons []Singleton    `json:"singletons,omitempty"`
	Slow       []SlowWorkload `json:"slow,omitempty"`
}

// Singleton is a workload that has one ready pod, which has to leave its node.
type Singleton struct {
	// Name is NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Moves is how the pod leaves: by eviction, or by a rolling restart of its Deployment.
	Moves record.Move `json:"moves"`
	// Gap is how long the workload will have no ready pod, as its pods usually take; zero for none.
	Gap record.Duration `json:"gap,omitzero"`
	// Why says why a rolling restart would not help; "" where it would.
	Why string `json:"why,omitempty"`
}

// SlowWorkload is a workload whose pods take long to become ready.
type SlowWorkload struct {
	// Name is NAMESPACE/KIND/NAME.
	Name string `json:"name"`
	// Ready is how long its pods take from their creation until they are ready.
	Ready record.Duration `json:"ready"`
}

// mostNamed is how many workloads a line names.
const mostNamed = 5

// workloadLines say which workloads will be noticed, and what is written to avoid it.
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
		lines = append(lines, "Restarts    "+NameFew(restarted)+": spec.template.metadata.annotations is set, as kubectl rollout restart does, so that another pod is ready before the old one leaves")
	}
	if len(could) > 0 {
		lines = append(lines, "Gaps        one replica only: "+NameFew(could)+". --move=surge avoids it")
	}
	if len(evicted) > 0 {
		lines = append(lines, "Gaps        one replica only: "+NameFew(evicted))
	}
	if len(p.Slow) > 0 {
		var slow []string
		for _, w := range p.Slow {
			slow = append(slow, fmt.Sprintf("%s (%s)", w.Name, w.Ready))
		}
		lines = append(lines, "Slow        "+NameFew(slow)+": if their new pods take more than twice that time, the next node must wait")
	}
	return lines
}

func formatGap(s Singleton) string {
	if s.Gap.Duration == 0 {
		return "down for an unknown time"
	}
	return "down for about " + formatSeconds(s.Gap.Duration)
}

// NameFew are the first few of them, and how many there are beyond.
func NameFew(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return strings.Join(names[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
