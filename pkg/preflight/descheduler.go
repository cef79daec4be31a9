package preflight

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// deschedulerPolicy is the part of a descheduler's policy that is read, in both of its versions.
type deschedulerPolicy struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Strategies belong to v1alpha1, Profiles to v1alpha2.
	Strategies map[string]deschedulerStrategy `json:"strategies"`
	Profiles   []deschedulerProfile           `json:"profiles"`
}

type deschedulerStrategy struct {
	Enabled bool `json:"enabled"`
	Params  struct {
		NodeFit                bool `json:"nodeFit"`
		IncludeSoftConstraints bool `json:"includeSoftConstraints"`
	} `json:"params"`
}

type deschedulerProfile struct {
	Name         string `json:"name"`
	PluginConfig []struct {
		Name string `json:"name"`
		Args struct {
			NodeFit     bool     `json:"nodeFit"`
			Constraints []string `json:"constraints"`
		} `json:"args"`
	} `json:"pluginConfig"`
	Plugins map[string]struct {
		Enabled []string `json:"enabled"`
	} `json:"plugins"`
}

// spreadPlugin is the plugin that evicts pods which violate a spread constraint.
const spreadPlugin = "RemovePodsViolatingTopologySpreadConstraint"

func findDeschedulerPolicies(s *Scene) []Finding {
	var found []Finding
	for _, holder := range s.ConfigMaps {
		for _, key := range slices.Sorted(maps.Keys(holder.Data)) {
			var policy deschedulerPolicy
			if !strings.Contains(holder.Data[key], "DeschedulerPolicy") || yaml.Unmarshal([]byte(holder.Data[key]), &policy) != nil || policy.Kind != "DeschedulerPolicy" {
				continue
			}
			for _, f := range checkDeschedulerPolicy(&policy, s.hasSoftConstraints()) {
				f.Object = "ConfigMap " + holder.Namespace + "/" + holder.Name
				found = append(found, f)
			}
		}
	}
	return found
}

// hasSoftConstraints reports whether pods that must move have spread constraints that the scheduler
// may ignore.
func (s *Scene) hasSoftConstraints() bool {
	return slices.ContainsFunc(s.Workloads, func(w *Workload) bool {
		return slices.ContainsFunc(w.Model().Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.ScheduleAnyway })
	})
}

func checkDeschedulerPolicy(policy *deschedulerPolicy, isSoft bool) []Finding {
	var found []Finding
	if len(policy.Strategies) > 0 || strings.HasSuffix(policy.APIVersion, "/v1alpha1") {
		found = append(found, Finding{
			Message: "the descheduler's policy has version v1alpha1, which deschedulers since v0.31 cannot read",
			Remedy:  "write its strategies as profiles with pluginConfig, in descheduler/v1alpha2",
		})
	}
	unfit, hard := policy.listWithoutNodeFit(), policy.listIgnoringSoftConstraints()
	if len(unfit) > 0 {
		found = append(found, Finding{
			Message: strings.Join(unfit, ", ") + " evicts pods without checking that another node fits them, and fenced nodes take no pods",
			Remedy:  "set nodeFit: true, or stop the descheduler until the upgrade is over",
		})
	}
	if isSoft && len(hard) > 0 {
		found = append(found, Finding{
			Message: strings.Join(hard, ", ") + " ignores ScheduleAnyway constraints, which pods on outdated nodes have: these pods stay unevenly spread after the upgrade",
			Remedy:  "set constraints: [DoNotSchedule, ScheduleAnyway] (in v1alpha1 includeSoftConstraints: true)",
		})
	}
	return found
}

// listWithoutNodeFit returns the strategies and profiles that evict without nodeFit.
func (p *deschedulerPolicy) listWithoutNodeFit() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.Strategies)) {
		if strategy := p.Strategies[name]; strategy.Enabled && !strategy.Params.NodeFit {
			names = append(names, "strategy "+name)
		}
	}
	for i := range p.Profiles {
		if p.Profiles[i].evictsPods() && !p.Profiles[i].checksNodeFit() {
			names = append(names, "profile "+p.Profiles[i].Name)
		}
	}
	return names
}

// evictsPods reports whether a plugin of the profile evicts pods.
func (p *deschedulerProfile) evictsPods() bool {
	return len(p.Plugins["deschedule"].Enabled)+len(p.Plugins["balance"].Enabled) > 0
}

// checksNodeFit reports whether the profile checks that another node takes the pod before it evicts it.
func (p *deschedulerProfile) checksNodeFit() bool {
	for i := range p.PluginConfig {
		if p.PluginConfig[i].Name == "DefaultEvictor" {
			return p.PluginConfig[i].Args.NodeFit
		}
	}
	return false
}

// listIgnoringSoftConstraints returns the strategies and profiles that balance only hard spread constraints.
func (p *deschedulerPolicy) listIgnoringSoftConstraints() []string {
	var names []string
	if strategy := p.Strategies[spreadPlugin]; strategy.Enabled && !strategy.Params.IncludeSoftConstraints {
		names = append(names, "strategy "+spreadPlugin)
	}
	for i := range p.Profiles {
		isSoft := false
		for _, config := range p.Profiles[i].PluginConfig {
			isSoft = isSoft || config.Name == spreadPlugin && slices.Contains(config.Args.Constraints, string(corev1.ScheduleAnyway))
		}
		if slices.Contains(p.Profiles[i].Plugins["balance"].Enabled, spreadPlugin) && !isSoft {
			names = append(names, "profile "+p.Profiles[i].Name)
		}
	}
	return names
}
