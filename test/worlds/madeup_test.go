package worlds_test

import (
	"slices"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/worlds"
)

// TestUpgradesWithMadeUpProvidersSucceed checks upgrades of groups of two providers that the product does not have. Groups of the first
// provider have no size. The second provider upgrades its groups itself, differently from EKS. The rules of all worlds apply.
func TestUpgradesWithMadeUpProvidersSucceed(t *testing.T) {
	for _, provider := range []string{"podscaler", "othercloud"} {
		if slices.ContainsFunc(nodegroup.Providers(), func(p nodegroup.Info) bool { return p.Name == provider }) {
			t.Errorf("provider %s is in the product, and should be made up", provider)
		}
		const wanted = 10
		succeeded := 0
		for seed := uint64(1); succeeded < wanted && seed < 5000; seed++ {
			plan := worlds.Generate(seed)
			if plan.Provider != provider {
				continue
			}
			v := worlds.Run(plan, nil)
			if v.Broken != "" {
				t.Errorf("seed %d: %s", seed, v.Broken)
			}
			if v.Result == record.Succeeded {
				succeeded++
			}
		}
		if succeeded < wanted {
			t.Errorf("only %d upgrades of groups of %s succeeded", succeeded, provider)
		}
	}
}
