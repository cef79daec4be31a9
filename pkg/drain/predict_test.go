package drain_test

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/build"
)

type budgetChange = func(*policyv1.PodDisruptionBudget)

func TestBudgetsThatCoverPodAreFound(t *testing.T) {
	matching := func(labels map[string]string) budgetChange {
		return build.Selecting(&metav1.LabelSelector{MatchLabels: labels})
	}
	invalid := build.Selecting(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Nonsense"}},
	})
	elsewhere := func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }
	cases := map[string]struct {
		budgets []*policyv1.PodDisruptionBudget
		want    []string
	}{
		"no budget":                        {nil, nil},
		"its labels":                       {[]*policyv1.PodDisruptionBudget{build.Budget("web")}, []string{"web"}},
		"other labels":                     {[]*policyv1.PodDisruptionBudget{build.Budget("cart")}, nil},
		"some of several labels":           {[]*policyv1.PodDisruptionBudget{build.Budget("web", matching(map[string]string{"app": "web", "tier": "1"}))}, nil},
		"3.4 a nil selector covers none":   {[]*policyv1.PodDisruptionBudget{build.Budget("web", build.Selecting(nil))}, nil},
		"3.4 an empty selector covers all": {[]*policyv1.PodDisruptionBudget{build.Budget("all", matching(nil))}, []string{"all"}},
		"3.4 an invalid selector is not":   {[]*policyv1.PodDisruptionBudget{build.Budget("web", invalid)}, nil},
		"another namespace":                {[]*policyv1.PodDisruptionBudget{build.Budget("web", elsewhere)}, nil},
		"PDB002 two, by name": {
			[]*policyv1.PodDisruptionBudget{build.Budget("web"), build.Budget("all", matching(nil))}, []string{"all", "web"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, budget := range drain.NewBudgets(c.budgets).Covering(build.Pod("web-0")) {
				got = append(got, budget.Name)
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if got := (drain.Budgets{}).Covering(build.Pod("web-0")); len(got) != 0 {
		t.Errorf("the zero Budgets cover %v", got)
	}
}

func TestObstacleOfEvictionIsPredicted(t *testing.T) {
	unsynced := func(b *policyv1.PodDisruptionBudget) { b.Generation++ }
	crowded := func(n int) budgetChange {
		return func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptedPods = map[string]metav1.Time{}
			for i := range n {
				b.Status.DisruptedPods[strconv.Itoa(i)] = metav1.Time{}
			}
		}
	}
	negative := func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = -1 }
	failed := func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed = 0
		b.Status.Conditions = []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "no scale",
		}}
	}
	type expect struct {
		kind   drain.ObstacleKind
		spends bool
	}
	admitted, spending := expect{}, expect{spends: true}
	cases := map[string]struct {
		pod    []podChange
		budget []budgetChange // nil: no budget
		second bool
		spent  int32
		ending bool // the namespace is being deleted
		want   expect
	}{
		"no budget":                                       {want: admitted},
		"a budget with room":                              {budget: []budgetChange{}, want: spending},
		"3.1 phase Unknown asks the budget":               {pod: []podChange{build.Phase(corev1.PodUnknown)}, budget: []budgetChange{build.Counts(3, 2, 3)}, want: expect{kind: drain.BudgetNever}},
		"3.1 Pending asks no budget":                      {pod: []podChange{build.Phase(corev1.PodPending)}, budget: []budgetChange{build.Counts(3, 3, 3)}, want: admitted},
		"3.1 Pending does not mind two":                   {pod: []podChange{build.Phase(corev1.PodPending)}, budget: []budgetChange{}, second: true, want: admitted},
		"3.1 an ending namespace admits none":             {ending: true, want: expect{kind: drain.NamespaceEnding}},
		"3.1 nor one that is Pending":                     {pod: []podChange{build.Phase(corev1.PodPending)}, ending: true, want: expect{kind: drain.NamespaceEnding}},
		"PDB002 two budgets":                              {budget: []budgetChange{}, second: true, want: expect{kind: drain.TwoBudgets}},
		"PDB002 two budgets over an unready pod":          {pod: []podChange{build.Unready}, budget: []budgetChange{}, second: true, want: expect{kind: drain.TwoBudgets}},
		"K03 unready, the others healthy: free":           {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(3, 2, 2)}, want: admitted},
		"K02 unready, the others too few":                 {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(4, 2, 3)}, want: expect{kind: drain.BudgetUnhealthy}},
		"K02 unready under AlwaysAllow: free":             {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(4, 2, 3), build.AlwaysAllow}, want: admitted},
		"3.4 free before the budget is processed":         {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(3, 2, 2), unsynced}, want: admitted},
		"PDB007 nothing needed, nothing there":            {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(3, 0, 0)}, want: expect{kind: drain.BudgetUnhealthy}},
		"PDB007 is passed by AlwaysAllow":                 {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(3, 0, 0), build.AlwaysAllow}, want: admitted},
		"K02 nothing needed, one healthy: an unready pod": {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(3, 1, 0)}, want: spending},
		"AlwaysAllow does nothing for a ready pod":        {budget: []budgetChange{build.Counts(4, 3, 3), build.AlwaysAllow}, want: expect{kind: drain.BudgetSpent}},
		"PDB008 the newest spec is not seen":              {budget: []budgetChange{unsynced}, want: expect{kind: drain.BudgetPending}},
		"PDB008 before it says never":                     {budget: []budgetChange{build.Counts(3, 3, 3), unsynced}, want: expect{kind: drain.BudgetPending}},
		"3.1 2000 disrupted pods are none too many":       {budget: []budgetChange{crowded(2000)}, want: spending},
		"3.1 2001 disrupted pods are too many":            {budget: []budgetChange{crowded(2001)}, want: expect{kind: drain.BudgetPending}},
		"3.1 a budget below zero":                         {budget: []budgetChange{build.Counts(4, 3, 3), negative}, want: expect{kind: drain.BudgetSpent}},
		"3.4 one of two is spent":                         {budget: []budgetChange{build.Counts(4, 4, 2)}, spent: 1, want: spending},
		"3.4 two of two are spent":                        {budget: []budgetChange{build.Counts(4, 4, 2)}, spent: 2, want: expect{kind: drain.BudgetSpent}},
		"spent, and shown":                                {budget: []budgetChange{build.Counts(4, 3, 3)}, want: expect{kind: drain.BudgetSpent}},
		"PDB006 its own pods are broken":                  {budget: []budgetChange{build.Counts(4, 2, 3)}, want: expect{kind: drain.BudgetUnhealthy}},
		"PDB001 it needs all of its pods":                 {budget: []budgetChange{build.Counts(3, 3, 3)}, want: expect{kind: drain.BudgetNever}},
		"PDB001 it needs more than there are":             {budget: []budgetChange{build.Counts(3, 3, 5)}, want: expect{kind: drain.BudgetNever}},
		"PDB003 its sync failed":                          {budget: []budgetChange{build.Counts(4, 4, 3), failed}, want: expect{kind: drain.BudgetNever}},
		"PDB004 it counts no pods":                        {budget: []budgetChange{build.Counts(0, 0, 0)}, want: expect{kind: drain.BudgetNever}},
		"PDB004 for an unready pod too":                   {pod: []podChange{build.Unready}, budget: []budgetChange{build.Counts(0, 0, 0)}, want: expect{kind: drain.BudgetNever}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var pdbs []*policyv1.PodDisruptionBudget
			if c.budget != nil {
				pdbs = append(pdbs, build.Budget("web", c.budget...))
			}
			if c.second {
				pdbs = append(pdbs, build.Budget("other", build.Selecting(&metav1.LabelSelector{})))
			}
			spent := drain.Spending{types.NamespacedName{Namespace: build.Namespace, Name: "web"}: c.spent}
			got := drain.Predict(build.Pod("web-0", c.pod...), drain.NewBudgets(pdbs), spent, c.ending)
			if got.Kind != c.want.kind || got.Spends != c.want.spends {
				t.Errorf("got kind %q, spends %t, want %q, %t", got.Kind, got.Spends, c.want.kind, c.want.spends)
			}
			if got.Admitted() != (c.want.kind == drain.NoObstacle) {
				t.Errorf("admitted %t with kind %q", got.Admitted(), got.Kind)
			}
		})
	}
}

// A prediction also contains what callers need for messages, and the version of the budget, by which they detect that
// the budget has changed.
func TestPredictionContainsItsBudget(t *testing.T) {
	budgets := drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", build.Counts(4, 3, 3))})
	got := drain.Predict(build.Pod("web-0"), budgets, nil, false)
	want := drain.Prediction{Version: "1", Obstacle: drain.Obstacle{
		Kind: drain.BudgetSpent, Budget: types.NamespacedName{Namespace: "shop", Name: "web"}, Need: 3, Have: 3,
	}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBudgetsThatNeverAllowEvictionsAreFound(t *testing.T) {
	never := func(b *policyv1.PodDisruptionBudget) { b.Status.ObservedGeneration = 0 }
	cases := map[string]struct {
		budget []budgetChange
		want   string
	}{
		"room":                           {nil, ""},
		"spent":                          {[]budgetChange{build.Counts(3, 2, 2)}, ""},
		"PDB001 every pod":               {[]budgetChange{build.Counts(3, 3, 3)}, "needs every pod"},
		"PDB004 no pods":                 {[]budgetChange{build.Counts(0, 0, 0)}, "counts no pods"},
		"PDB008 no status yet":           {[]budgetChange{build.Counts(0, 0, 0), never}, ""},
		"one pod, none needed":           {[]budgetChange{build.Counts(1, 1, 0)}, ""},
		"PDB009 a single replica needed": {[]budgetChange{build.Counts(1, 1, 1)}, "needs every pod"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			budgets := drain.NewBudgets([]*policyv1.PodDisruptionBudget{build.Budget("web", c.budget...)})
			got := budgets.Covering(build.Pod("web-0"))[0].WhyNeverOpens()
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want it to contain %q", got, c.want)
			}
		})
	}
}

// Until the disruption controller has counted an eviction, the budget seems to have more healthy pods than it needs.
// The text must not read as if the budget were open.
func TestObstacleTextCountsPodsBeingEvicted(t *testing.T) {
	const want = "PDB shop/web allows no disruption (needs 3 healthy, has 5, 2 of them being evicted)"
	obstacle := drain.Obstacle{Kind: drain.BudgetSpent, Budget: types.NamespacedName{Namespace: "shop", Name: "web"}, Need: 3, Have: 5}
	if got := obstacle.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestObstacleHasTextAndRemedy(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	cases := map[drain.ObstacleKind]struct {
		obstacle   drain.Obstacle
		text       string
		remedy     string
		structural bool
	}{
		drain.BudgetSpent:     {drain.Obstacle{Budget: web, Need: 3, Have: 3}, "PDB shop/web allows no disruption (needs 3 healthy, has 3)", "--on-timeout=force", false},
		drain.BudgetUnhealthy: {drain.Obstacle{Budget: web, Need: 3, Have: 1}, "PDB shop/web allows no disruption (needs 3 healthy, has 1)", "AlwaysAllow", false},
		drain.BudgetNever:     {drain.Obstacle{Budget: web, Need: 3, Have: 3, Detail: "it needs every pod that it covers"}, "PDB shop/web can never allow a disruption: it needs every pod that it covers (needs 3 healthy, has 3)", "as kubectl nodeupgrade check advises", true},
		drain.TwoBudgets:      {drain.Obstacle{Budget: web, Detail: "shop/all"}, "PDB shop/web and shop/all cover the same pod", "delete one", true},
		drain.BudgetPending:   {drain.Obstacle{Budget: web}, "PDB shop/web is not processed yet", "kube-controller-manager", false},
		drain.Unmanaged:       {drain.Obstacle{}, "no controller", "--unmanaged-pods=evict", true},
		drain.Completing:      {drain.Obstacle{}, "waits until it has finished, as its label cluster.x-k8s.io/drain asks", "--drain-timeout", false},
		drain.DoNotDisrupt:    {drain.Obstacle{}, "asks not to disrupt it", "--respect-do-not-disrupt", false},
		drain.NamespaceEnding: {drain.Obstacle{}, "namespace is being deleted", "finalizers", false},
		drain.Returns:         {drain.Obstacle{}, "on the fenced node again", "toleration", true},
		drain.Unanswered:      {drain.Obstacle{Detail: "the server is on fire"}, "the server is on fire", "API server", false},
		drain.TargetStays:     {drain.Obstacle{Detail: "target group web still has target i-1"}, "still has target i-1", "--on-timeout=force", false},
		drain.Denied:          {drain.Obstacle{Detail: "webhook says no"}, "webhook says no", "denies", false},
	}
	for kind, c := range cases {
		t.Run(string(kind), func(t *testing.T) {
			c.obstacle.Kind = kind
			if got := c.obstacle.String(); !strings.Contains(got, c.text) {
				t.Errorf("String: got %q, want it to contain %q", got, c.text)
			}
			if got := c.obstacle.Remedy(); !strings.Contains(got, c.remedy) {
				t.Errorf("Remedy: got %q, want it to contain %q", got, c.remedy)
			}
			if got := c.obstacle.NeedsPerson(); got != c.structural {
				t.Errorf("Structural: got %t, want %t", got, c.structural)
			}
			c.obstacle.Budget = web
			if isOfBudget(kind) && !strings.Contains(c.obstacle.String(), "PDB shop/web") {
				t.Errorf("E52: %q does not name its budget", c.obstacle)
			}
		})
	}
	if none := (drain.Obstacle{}); none.String() != "" || none.NeedsPerson() {
		t.Errorf("no obstacle reads %q, structural %t", none, none.NeedsPerson())
	}
}

// isOfBudget reports whether a budget can be the cause of the obstacle.
func isOfBudget(kind drain.ObstacleKind) bool {
	switch kind {
	case drain.Unmanaged, drain.Completing, drain.DoNotDisrupt, drain.NamespaceEnding, drain.Returns, drain.Unanswered, drain.TargetStays:
		return false
	default:
		return true
	}
}

// FuzzPredict checks that the answer for a ready pod only depends on the budget's room, and that no eviction without room
// is admitted.
func FuzzPredict(f *testing.F) {
	f.Add(int32(1), int32(0), int32(3), int32(2), int32(3), int64(0), uint16(0))
	f.Add(int32(1), int32(1), int32(3), int32(2), int32(3), int64(0), uint16(0))
	f.Add(int32(0), int32(0), int32(0), int32(0), int32(0), int64(1), uint16(2001))
	f.Add(int32(-1<<31), int32(1), int32(3), int32(3), int32(3), int64(0), uint16(0))
	f.Fuzz(func(t *testing.T, allowed, spent, healthy, desired, expected int32, lag int64, disrupted uint16) {
		spent = max(0, spent)
		budget := build.Budget("web")
		budget.Generation = max(1, lag)
		budget.Status.ObservedGeneration = budget.Generation - max(0, min(lag, 1))
		budget.Status.DisruptionsAllowed, budget.Status.CurrentHealthy = allowed, healthy
		budget.Status.DesiredHealthy, budget.Status.ExpectedPods = desired, expected
		budget.Status.DisruptedPods = make(map[string]metav1.Time, disrupted)
		for i := range int(disrupted) {
			budget.Status.DisruptedPods[strconv.Itoa(i)] = metav1.Time{}
		}
		key := types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name}
		got := drain.Predict(build.Pod("web-0"), drain.NewBudgets([]*policyv1.PodDisruptionBudget{budget}), drain.Spending{key: spent}, false)

		room := int64(allowed)-int64(spent) > 0
		if want := room && lag <= 0 && disrupted <= 2000; got.Admitted() != want {
			t.Errorf("admitted %t, want %t: %+v", got.Admitted(), want, got)
		}
		if got.Admitted() != got.Spends {
			t.Errorf("admitted %t, spends %t: the eviction of a ready pod always costs the budget", got.Admitted(), got.Spends)
		}
	})
}

// TestOmitForceRemovesAdviceToForce: no remedy advises a flag that is already set.
func TestOmitForceRemovesAdviceToForce(t *testing.T) {
	for _, kind := range []drain.ObstacleKind{drain.BudgetSpent, drain.BudgetUnhealthy, drain.BudgetNever, drain.Returns, drain.TargetStays, drain.LastReady} {
		remedy := drain.OmitForce(drain.Obstacle{Kind: kind}.Remedy())
		if remedy == "" || strings.Contains(remedy, "force") || strings.HasSuffix(remedy, ",") || strings.HasSuffix(remedy, " or") {
			t.Errorf("kind %v: %q", kind, remedy)
		}
	}
	if got := drain.OmitForce("see its kubelet, or pass --on-timeout=force"); got != "see its kubelet" {
		t.Errorf("got %q", got)
	}
}
