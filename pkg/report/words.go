package report

import (
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"
)

// Word returns the value of an enumeration as documents write it: in lower case, with dashes between words. The record of an upgrade
// keeps the older forms (Draining, scale up, PodEvictionFailure), because every version reads them.
func Word(value string) string {
	var b strings.Builder
	for i, r := range value {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsUpper(r):
			if i > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func word[T ~string](value T) T { return T(Word(string(value))) }

// ForPrograms returns a copy of the document in which phases, results and states are written as [Word] does.
func ForPrograms(document runtime.Object) runtime.Object {
	switch d := document.(type) {
	case *NodeGroupList:
		return convertItems(d, func(g NodeGroup) NodeGroup {
			g.Phase = Word(g.Phase)
			return g
		})
	case *Plan:
		converted := convertPlan(*d)
		return &converted
	case *PlanList:
		return convertItems(d, convertPlan)
	case *UpgradeStatus:
		converted := convertStatus(*d)
		return &converted
	case *List[UpgradeStatus]:
		return convertItems(d, convertStatus)
	case *Comparison:
		return convertComparison(*d)
	default:
		return document
	}
}

func convertItems[T any](list *List[T], convert func(T) T) *List[T] {
	converted := *list
	converted.Items = slices.Clone(list.Items)
	for i := range converted.Items {
		converted.Items[i] = convert(converted.Items[i])
	}
	return &converted
}

func convertPlan(p Plan) Plan {
	p.Ends = convertEnds(p.Ends)
	return p
}

func convertEnds(ends *PlanEnds) *PlanEnds {
	if ends == nil {
		return nil
	}
	converted := *ends
	converted.Fast.Result, converted.Slow.Result = word(ends.Fast.Result), word(ends.Slow.Result)
	return &converted
}

func convertStatus(s UpgradeStatus) UpgradeStatus {
	s.Result, s.Status.Phase = word(s.Result), word(s.Status.Phase)
	s.Status.Nodes = slices.Clone(s.Status.Nodes)
	for i := range s.Status.Nodes {
		s.Status.Nodes[i].State = word(s.Status.Nodes[i].State)
	}
	s.RemainingEnds = convertEnds(s.RemainingEnds)
	return s
}

func convertComparison(c Comparison) *Comparison {
	c.Ways = slices.Clone(c.Ways)
	for i := range c.Ways {
		if forecast := c.Ways[i].WayForecast; forecast != nil {
			converted := *forecast
			converted.Result = word(forecast.Result)
			c.Ways[i].WayForecast = &converted
		}
	}
	return &c
}

// convertReport returns a copy of the report whose states, phases and results are written as in other documents.
func convertReport(r RunReport) RunReport {
	r.Result = word(r.Result)
	if r.Plan != nil {
		plan := convertPlan(*r.Plan)
		r.Plan = &plan
	}
	if r.Comparison != nil {
		r.Comparison = convertComparison(*r.Comparison)
	}
	r.Phases = convertPeriods(r.Phases)
	r.Nodes, r.Log = slices.Clone(r.Nodes), slices.Clone(r.Log)
	for i := range r.Nodes {
		r.Nodes[i].State, r.Nodes[i].States = word(r.Nodes[i].State), convertPeriods(r.Nodes[i].States)
	}
	for i := range r.Log {
		r.Log[i].State = Word(r.Log[i].State)
	}
	return r
}

func convertPeriods(all []Period) []Period {
	all = slices.Clone(all)
	for i := range all {
		all[i].What = Word(all[i].What)
	}
	return all
}
