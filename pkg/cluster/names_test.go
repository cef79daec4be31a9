package cluster

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestObjectNameIsDerivedFromGroupName(t *testing.T) {
	long := strings.Repeat("workers-", 12)
	cases := map[string]struct{ group, want string }{
		"a plain name":                    {"workers", "nodeupgrade-workers-"},
		"capitals":                        {"Workers", "nodeupgrade-workers-"},
		"what an object's name cannot be": {"eks_prod/workers.v2", "nodeupgrade-eks-prod-workers-v2-"},
		"a selector":                      {"pool=x,tier in (a,b)", "nodeupgrade-pool-x-tier-in-a-b-"},
		"ends that are cut":               {"--workers--", "nodeupgrade-workers-"},
		"nothing that could stay":         {"ノード", "nodeupgrade-"},
		"the empty name":                  {"", "nodeupgrade-"},
		"a long one":                      {long, "nodeupgrade-workers-workers-workers-workers-workers-"},
		"a long one cut at a dash":        {strings.Repeat("abcdefg-", 8), "nodeupgrade-abcdefg-abcdefg-abcdefg-abcdefg-abcdefg-"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ObjectName(c.group)
			slug, ok := strings.CutPrefix(got, c.want)
			if !ok || len(slug) != 8 || strings.Trim(slug, "0123456789abcdef") != "" {
				t.Errorf("got %q, want %q and 8 hex digits", got, c.want)
			}
			if got != ObjectName(c.group) {
				t.Error("the same group has two names")
			}
		})
	}
}

func TestObjectNamesOfDifferentGroupsDiffer(t *testing.T) {
	groups := []string{"workers", "Workers", "workers-", "workers.", "ノード", "ノーﾄﾞ", "", "-", strings.Repeat("a", 60), strings.Repeat("a", 61)}
	seen := map[string]string{}
	for _, group := range groups {
		name := ObjectName(group)
		if other, taken := seen[name]; taken {
			t.Errorf("groups %q and %q share the name %q", group, other, name)
		}
		seen[name] = group
	}
}

func FuzzObjectName(f *testing.F) {
	for _, group := range []string{"workers", "eks-prod_workers/v2", "-", "", "ÀÉ", strings.Repeat("x-", 200), "a\x00b\xff"} {
		f.Add(group, group+"2")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		name := ObjectName(one)
		if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
			t.Errorf("group %q gets the name %q: %s", one, name, strings.Join(faults, "; "))
		}
		if strings.Contains(name, "--") {
			t.Errorf("group %q gets the name %q", one, name)
		}
		if one != other && name == ObjectName(other) {
			t.Errorf("groups %q and %q share the name %q", one, other, name)
		}
	})
}
