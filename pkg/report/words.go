package report

import (
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"
)

// KebabCase returns an enumeration value as documents write it: in lower case, with dashes between words.
// Records of upgrades keep the older forms (Draining, scale up, PodEvictionFailure), because every version of
// this tool must read them.
func KebabCase(value string) string {
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

func kebabCase[T ~string](value T) T { return T(KebabCase(string(value))) }

// KebabCaseValues returns a copy of the document in which phases, results and states are written as
// [KebabCase] returns them.
func KebabCaseValues(document runtime.Object) runtime.Object {
	switch d := document.(type) {
	case *NodeGroupList:
		return convertItems(d, func(g NodeGroup) NodeGroup {
			g.Phase = KebabCase(g.Phase)
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
	converted.Fast.Result, converted.Slow.Result = kebabCase(ends.Fast.Result), kebabCase(ends.Slow.Result)
	return &converted
}

func convertStatus(s UpgradeStatus) UpgradeStatus {
	s.Result, s.Status.Phase = kebabCase(s.Result), kebabCase(s.Status.Phase)
	s.Status.Nodes = slices.Clone(s.Status.Nodes)
	for i := range s.Status.Nodes {
		s.Status.Nodes[i].State = kebabCase(s.Status.Nodes[i].State)
	}
	s.RemainingEnds = convertEnds(s.RemainingEnds)
	return s
}

func convertComparison(c Comparison) *Comparison {
	c.Ways = slices.Clone(c.Ways)
	for i := range c.Ways {
		if forecast := c.Ways[i].WayForecast; forecast != nil {
			converted := *forecast
			converted.Result = kebabCase(forecast.Result)
			c.Ways[i].WayForecast = &converted
		}
	}
	return &c
}

// convertReport returns a copy of the report whose states, phases and results are written as [KebabCase]
// returns them.
func convertReport(r RunReport) RunReport {
	r.Result = kebabCase(r.Result)
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
		r.Nodes[i].State, r.Nodes[i].States = kebabCase(r.Nodes[i].State), convertPeriods(r.Nodes[i].States)
	}
	for i := range r.Log {
		r.Log[i].State = KebabCase(r.Log[i].State)
	}
	return r
}

func convertPeriods(all []Period) []Period {
	all = slices.Clone(all)
	for i := range all {
		all[i].What = KebabCase(all[i].What)
	}
	return all
}
