package report_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

func impactOn(name string, evictions int, below, none time.Duration) record.WorkloadImpact {
	return record.WorkloadImpact{Name: name, Impact: record.Impact{
		Evictions: evictions, Below: record.Duration{Duration: below}, None: record.Duration{Duration: none},
	}}
}

func TestImpactLinesNameWorkloadsThatLackedReadyPods(t *testing.T) {
	many := []record.WorkloadImpact{}
	for i := range 12 {
		many = append(many, impactOn(fmt.Sprintf("shop/Deployment/app%d", i), 1, time.Second, time.Second))
	}
	for name, c := range map[string]struct {
		all   []record.WorkloadImpact
		lines int
		first string
		last  string
	}{
		"nothing was moved": {},
		"all is well": {
			all: []record.WorkloadImpact{impactOn("shop/Deployment/web", 3, 4*time.Second, 0), impactOn("shop/Deployment/api", 1, 0, 0)}, lines: 1,
			first: "no workload was without a ready pod: 4 evictions of 2 workloads; fewer pods than before were ready for at most 4s",
		},
		"one was out": {
			all: []record.WorkloadImpact{impactOn("shop/Deployment/solo", 1, 15*time.Second, 12*time.Second), impactOn("shop/Deployment/web", 3, 4*time.Second, 0)}, lines: 2,
			first: "shop/Deployment/solo: no ready pod for 12s, fewer than before for 15s",
			last:  "4 evictions of 2 workloads, of which 1 had a ready pod at all times",
		},
		"one still is": {
			all: []record.WorkloadImpact{{Name: "shop/Deployment/solo", Impact: record.Impact{
				Evictions: 1, Below: record.Duration{Duration: 3 * time.Second}, None: record.Duration{Duration: 3 * time.Second}, Lacks: 1, Out: true,
			}}}, lines: 2,
			first: "shop/Deployment/solo: no ready pod for 3s; it has no ready pod now",
		},
		"one still lacks a pod": {
			all: []record.WorkloadImpact{{Name: "shop/Deployment/web", Impact: record.Impact{Evictions: 3, Lacks: 2}}}, lines: 2,
			first: "shop/Deployment/web: it has 2 ready pods fewer now than before",
		},
		"many were": {all: many, lines: 12, first: "shop/Deployment/app0: no ready pod for 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := report.ImpactLines(c.all)
			if len(lines) != c.lines || (c.first != "" && lines[0] != c.first) || (c.last != "" && !slices.Contains(lines, c.last)) {
				t.Errorf("%q", lines)
			}
		})
	}
}
