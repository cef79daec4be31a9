package plugin

import (
	"testing"
)

// TestPlansOfDumpsDependOnNodeOwner checks that a plan depends on the owner of the nodes, and the advised strategy on the kind of pods.
func TestPlansOfDumpsDependOnNodeOwner(t *testing.T) {
	const surgeFits = "--strategy=surge fits better"
	auto, blueGreen := "--strategy=autoscaled-blue-green", "--strategy=blue-green"
	cases := map[string]dumpCase{
		"g-1x5-gce": {
			simulate: []string{"(GKE node pool, read from node labels)", "surge, with GKE's numbers: one node at a time, 0 unavailable, one zone after the other; 1h to drain each, then its pods are deleted", "at most 6 during the upgrade (one zone after the other: z-a +1), 5 afterwards"},
			check:    []string{"(GKE node pool, read from node labels)"}, without: []string{"Auto Scaling", "labelled nodes"},
		},
		"g-1x5-gce --like=gke":               {args: []string{"--like=gke"}, simulate: []string{"surge, with GKE's numbers"}},
		"g-1x5-gce --like=eks":               {args: []string{"--like=eks"}, simulate: []string{"(GKE node pool, read from node labels)", "surge, with EKS's numbers: one node at a time"}},
		"g-1x5-gce --provider=gke":           {args: []string{"--provider=gke"}, simulate: []string{"surge, with GKE's numbers"}},
		"g-1x5-gce --strategy=blue-green":    {args: []string{blueGreen}, simulate: []string{"blue-green, one node at a time", "1h to drain", "during the upgrade"}, without: []string{"--max-surge"}},
		"g-1x5-gce --provider=manual":        {args: []string{"--provider=manual", blueGreen}, code: exitUsage, simulate: []string{"--strategy=blue-green: this tool cannot add nodes to groups of provider manual"}, without: []string{"--max-surge"}},
		"o-capi":                             ownedDumpCase("Cluster API machines", "Cluster API replaces this node itself", "MachineDeployment"),
		"o-autopilot":                        ownedDumpCase("GKE Autopilot nodes", "GKE Autopilot upgrades and replaces this node", "maintenance window"),
		"o-fargate":                          ownedDumpCase("Fargate nodes", "Fargate created this node for one pod", "kubectl rollout restart"),
		"o-flexstart":                        ownedDumpCase("GKE Flex Start node pool", "GKE Flex Start terminates this node within 7 days", "--strategy=short-lived"),
		"o-flexstart --strategy=short-lived": {args: []string{"--strategy=short-lived"}, simulate: []string{"(GKE Flex Start node pool)", "Strategy    short-lived"}, without: []string{"Refused"}},
		"f-safe-to-evict-false " + auto:      {args: []string{auto}, simulate: []string{"autoscaled-blue-green: all outdated nodes are fenced"}, without: []string{"fits better"}},
		"f-safe-to-evict-false":              {simulate: []string{"--strategy=blue-green fits better: pod shop/web-h1-0 must not be disrupted"}, without: []string{surgeFits}},
		"f-donotdisrupt " + blueGreen:        {args: []string{blueGreen}, simulate: []string{"blue-green, one node at a time"}, without: []string{"fits better"}},
		"f-pytorchjob-safe " + auto:          {args: []string{auto}, check: []string{"POD013", "PyTorchJob"}, without: []string{"fits better"}},
		"f-pytorchjob-safe " + blueGreen:     {args: []string{blueGreen}, without: []string{"fits better"}},
		"f-job-4h " + auto:                   {args: []string{auto}, without: []string{"fits better"}},
		"f-job-4h " + blueGreen:              {args: []string{blueGreen}, without: []string{"fits better"}},
		"g-10 " + blueGreen:                  {args: []string{blueGreen}, without: []string{"fits better"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { testDump(t, name, c) })
	}
}

// ownedDumpCase returns what commands print about nodes that have an owner.
func ownedDumpCase(kind, does, remedy string) dumpCase {
	says := []string{"(" + kind + ")", does, remedy}
	return dumpCase{code: exitStructural, simulate: append([]string{"Refused"}, says...), check: append([]string{"NG001"}, says...), without: []string{"Auto Scaling", "Takes", "Strategy "}}
}
