package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Settings are a user's settings. Each may be left open: nil, or empty.
type Settings struct {
	// Like is "eks" or "gke"; empty selects the provider's model.
	Like           string
	Strategy       record.Strategy
	To             string
	Current        map[string]string
	MaxUnavailable *nodegroup.Quantity
	MaxSurge       *nodegroup.Quantity
	// UpdateStrategy is one of UpdateStrategies, which are EKS's terms.
	UpdateStrategy string
	// Batch, BatchSoak and Soak are for the strategy BlueGreen only.
	Batch     *nodegroup.Quantity
	BatchSoak *time.Duration
	Soak      *time.Duration
	// WaitForDrain is the wait between the fence and the drain. It is for the strategy AutoscaledBlueGreen only.
	WaitForDrain *time.Duration
	DrainTimeout *time.Duration
	Settle       *time.Duration
	BootTimeout  time.Duration
	OnTimeout    record.OnTimeout
	// Move is "" for MoveByEviction.
	Move record.Move
	// IgnoreUnready are workloads, NAMESPACE/KIND/NAME, or AllWorkloads.
	IgnoreUnready []string

	BatchBarrier, EvictUnmanaged, RespectDoNotDisrupt, KeepMax, KeepFence, WaitReplacement, NoImplicitBudgets bool
}

// defaults are the default numbers of a model: EKS or GKE.
type defaults struct {
	maxUnavailable nodegroup.Quantity
	drainTimeout   time.Duration
	settle         time.Duration
	onTimeout      record.OnTimeout
}

func defaultsOf(like string) defaults {
	if like == "gke" { // GKE G10, G15
		return defaults{maxUnavailable: nodegroup.Quantity{N: 0}, drainTimeout: time.Hour, onTimeout: record.Force}
	}
	// EKS E05, E41, E42, E44
	return defaults{maxUnavailable: nodegroup.Quantity{N: 1}, drainTimeout: 15 * time.Minute, settle: time.Minute, onTimeout: record.Fail}
}

// Check returns an error for values that are wrong for any group, so that they are refused before anything is read.
// Settings that were left open are valid, except BootTimeout, which has no default in any model.
func (s Settings) Check() error {
	switch {
	case !slices.Contains([]string{"", "eks", "gke"}, s.Like):
		return fmt.Errorf("--like=%s is neither eks nor gke", s.Like)
	case s.Strategy != "" && !slices.Contains(record.Strategies(), s.Strategy):
		return fmt.Errorf("--strategy=%s is not known: use %s", s.Strategy, joinStrategyNames())
	case !slices.Contains([]record.OnTimeout{"", record.Fail, record.Force, record.Skip}, s.OnTimeout):
		return fmt.Errorf("--on-timeout=%s is not known: use fail, force or skip", s.OnTimeout)
	case !slices.Contains([]record.Move{"", record.MoveByEviction, record.MoveBySurge}, s.Move):
		return fmt.Errorf("--move=%s is not known: use %s or %s", s.Move, record.MoveByEviction, record.MoveBySurge)
	case s.DrainTimeout != nil && *s.DrainTimeout <= 0:
		return fmt.Errorf("--drain-timeout=%s leaves no time to drain: use a positive duration", s.DrainTimeout)
	case s.BootTimeout <= 0:
		return fmt.Errorf("--boot-timeout=%s leaves no time to boot: use a positive duration", s.BootTimeout)
	case s.Settle != nil && *s.Settle < 0:
		return fmt.Errorf("--settle=%s is negative: use 0 or more", s.Settle)
	}
	return cmp.Or(s.checkIgnored(), s.checkUpdateStrategy(), s.checkStrategy())
}

// checkStrategy returns an error for settings that the strategy does not take.
func (s *Settings) checkStrategy() error {
	asked := strategyOf(s.Strategy, false)
	for _, name := range record.Strategies() {
		other := strategyOf(name, false)
		if other.refuseOwnFlags == nil || other.name == asked.name {
			continue
		}
		if err := other.refuseOwnFlags(s); err != nil {
			return err
		}
	}
	if asked.check == nil {
		return nil
	}
	return asked.check(s)
}

func (s *Settings) checkIgnored() error {
	for _, name := range s.IgnoreUnready {
		if name == record.AllWorkloads {
			continue
		}
		if _, err := drain.ParseWorkload(name); err != nil {
			return fmt.Errorf("--ignore-unready=%s: %w, or %s for all", name, err, record.AllWorkloads)
		}
	}
	return nil
}

// minimal is EKS's update strategy that adds no nodes (EKS E09).
const minimal = "minimal"

// UpdateStrategies returns EKS's names for adding nodes first and for terminating nodes first (EKS E09).
func UpdateStrategies() []string { return []string{"default", minimal} }

// checkUpdateStrategy returns an error for an update strategy that EKS does not have, or that contradicts other
// settings.
func (s *Settings) checkUpdateStrategy() error {
	switch {
	case s.UpdateStrategy == "":
		return nil
	case !slices.Contains(UpdateStrategies(), s.UpdateStrategy):
		return fmt.Errorf("--update-strategy=%s is not known: use %s", s.UpdateStrategy, strings.Join(UpdateStrategies(), " or "))
	case !s.Strategy.Traits().TakesWidth:
		return fmt.Errorf("--update-strategy=%s works only with --strategy=%s: remove it or --strategy=%s", s.UpdateStrategy, record.Surge, s.Strategy)
	case s.UpdateStrategy == minimal && s.MaxSurge != nil && s.MaxSurge.N > 0:
		return fmt.Errorf("--update-strategy=%s adds no node: remove --max-surge=%s", minimal, s.MaxSurge)
	}
	return nil
}

func checkSoak(flag string, soak *time.Duration) error {
	if soak == nil || (*soak >= 0 && *soak <= maxSoak) {
		return nil
	}
	return fmt.Errorf("--%s=%s: use a time from 0 to %s: all soaks of an upgrade together must not take longer", flag, soak, maxSoak)
}

// ResolveRequest fills in the settings that were left open, from the model and the group. size is the group's number of
// nodes, outdated how many of them must be replaced. It returns an error for settings that Check refuses, that
// contradict each other, or that would allow no node ever to be drained.
func (s Settings) ResolveRequest(group *nodegroup.Group, size, outdated int) (record.Request, error) {
	err := s.Check()
	if err != nil {
		return record.Request{}, err
	}
	if group.Managed != nil {
		return s.resolveDelegated(group, size, outdated)
	}
	like := cmp.Or(s.Like, nodegroup.InfoOf(group.Provider).Model)
	model := defaultsOf(like)
	req := record.Request{
		Group: group.Name, Strategy: cmp.Or(s.Strategy, record.Surge), Like: like, To: s.To, Current: s.Current,
		BatchBarrier: s.BatchBarrier, EvictUnmanaged: s.EvictUnmanaged, RespectDoNotDisrupt: s.RespectDoNotDisrupt,
		KeepMax: s.KeepMax, KeepFence: s.KeepFence, WaitReplacement: s.WaitReplacement,
		NoImplicitBudgets: s.NoImplicitBudgets, IgnoreUnready: s.IgnoreUnready, Move: s.Move,
		DrainTimeout: record.Duration{Duration: valueOrDefault(s.DrainTimeout, model.drainTimeout)}, Settle: record.Duration{Duration: valueOrDefault(s.Settle, model.settle)},
		BootTimeout: record.Duration{Duration: s.BootTimeout}, OnTimeout: cmp.Or(s.OnTimeout, model.onTimeout),
	}
	if resolve := strategyOf(s.Strategy, false).resolve; resolve != nil {
		return resolve(s, req, group, size, outdated)
	}
	return s.resolveWidth(req, group, size, outdated)
}

// resolveWidth completes the request for a surge upgrade: how many nodes are added, and how many are upgraded at once.
// GKE's numbers are per zone. They also apply to the whole group, because one zone is upgraded at a time (GKE G10, G12,
// G14).
func (s Settings) resolveWidth(req record.Request, group *nodegroup.Group, size, outdated int) (record.Request, error) {
	unavailable := valueOrDefault(s.MaxUnavailable, defaultsOf(req.Like).maxUnavailable)
	surge := valueOrDefault(s.MaxSurge, nodegroup.Quantity{N: 1})
	err := cmp.Or(checkPerZone("max-unavailable", unavailable, group), checkPerZone("max-surge", surge, group))
	if err != nil {
		return record.Request{}, err
	}
	if req.TakesTurns() {
		unavailable.PerZone, surge.PerZone = false, false
		if group.Can.Resize || s.MaxSurge != nil {
			s.MaxSurge = &surge
		}
	}
	if req.MaxUnavailable, err = unavailable.ResolveUnavailable(size); err != nil {
		return record.Request{}, fmt.Errorf("--max-unavailable: %w", err)
	}
	if req.Surge, err = s.resolveSurge(group, req.MaxUnavailable, size, outdated); err != nil {
		return record.Request{}, err
	}
	req.Window = req.MaxUnavailable
	switch {
	case req.TakesTurns():
		req.Surge = min(req.Surge, record.MaxSurgeWindow)
		req.MaxUnavailable = min(req.MaxUnavailable, record.MaxSurgeWindow-req.Surge)
		req.Window = req.Surge + req.MaxUnavailable
	case req.Window == 0:
		req.Window = min(req.Surge, record.MaxSurgeWindow)
	}
	if req.Window == 0 && outdated > 0 {
		return record.Request{}, s.noWidthError(group, req.Like)
	}
	return req, nil
}

// noWidthError returns the error for settings that allow no node to be drained. It names the flags that the
// user typed.
func (s *Settings) noWidthError(group *nodegroup.Group, like string) error {
	switch {
	case s.MaxUnavailable != nil:
		return fmt.Errorf("--max-unavailable=%s and no added node: no node may be drained: raise --max-unavailable or --max-surge", s.MaxUnavailable)
	case !group.Can.Resize:
		return fmt.Errorf("--like=%s adds a node before it drains one, but groups of labelled nodes (provider %s) cannot be made larger: pass --max-unavailable=1", like, group.Provider)
	default:
		return fmt.Errorf("no node is added, and --like=%s allows no unavailable node, so no node may be drained: pass --max-unavailable=1", like)
	}
}

// checkPerZone returns an error for a number per zone if the group has no zones.
func checkPerZone(flag string, q nodegroup.Quantity, group *nodegroup.Group) error {
	if !q.PerZone || len(group.Zones) > 0 {
		return nil
	}
	return fmt.Errorf("--%s=%s: group %q has no zones: write %d", flag, q, group.Name, q.N)
}

// resolveSurge returns how many nodes are added: the number that was asked for, or EKS's "up to" rule min(max(2 ×
// zones, maxUnavailable), outdated) (E21, E23). It never returns more than the outdated nodes, and 0 without a cloud.
func (s Settings) resolveSurge(group *nodegroup.Group, unavailable, size, outdated int) (int, error) {
	surge := max(2*len(group.Zones), unavailable)
	switch {
	case s.UpdateStrategy == minimal:
		surge = 0
	case s.MaxSurge != nil:
		surge = s.MaxSurge.ResolveSurge(size, len(group.Zones))
	}
	surge = min(surge, outdated)
	if !group.Can.Resize {
		if s.MaxSurge != nil && s.MaxSurge.N > 0 {
			return 0, fmt.Errorf("--max-surge=%s: this tool cannot add nodes to groups of provider %s: remove the flag", s.MaxSurge, group.Provider)
		}
		return 0, nil
	}
	if !s.KeepMax || surge == 0 {
		return surge, nil
	}
	remedy := "pass --max-surge=0 or remove --keep-max"
	if s.Strategy == record.BlueGreen { // it takes no --max-surge
		remedy = "remove --keep-max"
	}
	room := max(0, group.Max-group.Desired)
	switch {
	case !group.Can.NameZone: // without a token, only the raise proves that a launch has landed
		return 0, fmt.Errorf("--keep-max: group %q can grow only if its max is raised too: %s", group.Name, remedy)
	case room == 0:
		return 0, fmt.Errorf("--keep-max: group %q is at its max of %d, so no node can be added: %s, or raise its max", group.Name, group.Max, remedy)
	}
	return min(surge, room), nil
}

// firstNonDelegatedFlag returns a flag that was given and that applies only to groups which this tool drives; "" for none.
// like is the model whose numbers apply anyway.
func (s *Settings) firstNonDelegatedFlag(like string) string {
	given := []struct {
		flag string
		is   bool
	}{
		{"strategy", s.Strategy != "" && s.Strategy != record.Delegated},
		{"like", s.Like != "" && s.Like != like},
		{"update-strategy", s.UpdateStrategy != ""},
		{"current", len(s.Current) > 0},
		{"drain-timeout", s.DrainTimeout != nil},
		{"settle", s.Settle != nil},
		{"on-timeout=skip", s.OnTimeout == record.Skip},
		{"batch", s.Batch != nil},
		{"batch-soak", s.BatchSoak != nil},
		{"soak", s.Soak != nil},
		{"wait-for-drain", s.WaitForDrain != nil},
		{"batch-barrier", s.BatchBarrier},
		{"unmanaged-pods", s.EvictUnmanaged},
		{"respect-do-not-disrupt", s.RespectDoNotDisrupt},
		{"implicit-budgets", s.NoImplicitBudgets},
		{"move", s.Move == record.MoveBySurge},
		{"ignore-unready", len(s.IgnoreUnready) > 0},
		{"keep-max", s.KeepMax},
		{"keep-fence", s.KeepFence},
	}
	for _, g := range given {
		if g.is {
			return g.flag
		}
	}
	return ""
}

func valueOrDefault[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// joinStrategyNames returns all strategies as a choice: "surge, short-lived or delegated".
func joinStrategyNames() string {
	var names []string
	for _, strategy := range record.Strategies() {
		names = append(names, string(strategy))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
