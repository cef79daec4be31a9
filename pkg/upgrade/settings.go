package upgrade

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Settings are a user's wishes, each of which may be left open: nil, or empty.
type Settings struct {
	// Like is "eks" or "gke"; empty for what fits the provider.
	Like           string
	Strategy       Strategy
	To             string
	Current        map[string]string
	MaxUnavailable *nodegroup.Quantity
	MaxSurge       *nodegroup.Quantity
	// UpdateStrategy is one of UpdateStrategies, by EKS's words.
	UpdateStrategy string
	// Batch, BatchSoak and Soak are for the strategy BlueGreen alone.
	Batch     *nodegroup.Quantity
	BatchSoak *time.Duration
	Soak      *time.Duration
	// WaitForDrain is for the strategy AutoscaledBlueGreen alone.
	WaitForDrain *time.Duration
	DrainTimeout *time.Duration
	Settle       *time.Duration
	BootTimeout  time.Duration
	OnTimeout    OnTimeout
	// Move is "" for MoveByEviction.
	Move Move
	// IgnoreUnready are workloads, NAMESPACE/KIND/NAME, or AllWorkloads.
	IgnoreUnready []string

	BatchBarrier, EvictUnmanaged, RespectDoNotDisrupt, KeepMax, KeepFence, WaitReplacement, NoImplicitBudgets bool
}

// defaults are the numbers of one model.
type defaults struct {
	maxUnavailable nodegroup.Quantity
	drainTimeout   time.Duration
	settle         time.Duration
	onTimeout      OnTimeout
}

func defaultsOf(like string) defaults {
	if like == "gke" { // GKE G10, G15
		return defaults{maxUnavailable: nodegroup.Quantity{N: 0}, drainTimeout: time.Hour, onTimeout: Force}
	}
	// EKS E05, E41, E42, E44
	return defaults{maxUnavailable: nodegroup.Quantity{N: 1}, drainTimeout: 15 * time.Minute, settle: time.Minute, onTimeout: Fail}
}

// Check refuses values that no group could make sense of, so that nothing need be asked for them to
// be refused. What was left open is no fault, but for BootTimeout, of which no model has a number.
func (s Settings) Check() error {
	switch {
	case !slices.Contains([]string{"", "eks", "gke"}, s.Like):
		return fmt.Errorf("--like=%s is neither eks nor gke", s.Like)
	case s.Strategy != "" && !slices.Contains(Strategies(), s.Strategy):
		return fmt.Errorf("--strategy=%s is not known: use %s", s.Strategy, joinStrategyNames())
	case !slices.Contains([]OnTimeout{"", Fail, Force, Skip}, s.OnTimeout):
		return fmt.Errorf("--on-timeout=%s is not known: use fail, force or skip", s.OnTimeout)
	case !slices.Contains([]Move{"", MoveByEviction, MoveBySurge}, s.Move):
		return fmt.Errorf("--move=%s is not known: use %s or %s", s.Move, MoveByEviction, MoveBySurge)
	case s.DrainTimeout != nil && *s.DrainTimeout <= 0:
		return fmt.Errorf("--drain-timeout=%s leaves no time to drain: use a positive duration", s.DrainTimeout)
	case s.BootTimeout <= 0:
		return fmt.Errorf("--boot-timeout=%s leaves no time to boot: use a positive duration", s.BootTimeout)
	case s.Settle != nil && *s.Settle < 0:
		return fmt.Errorf("--settle=%s is negative: use 0 or more", s.Settle)
	}
	return cmp.Or(s.checkIgnored(), s.checkUpdateStrategy(), s.checkBlueGreen(), s.checkAutoscaled(), s.checkShortLived())
}

func (s *Settings) checkIgnored() error {
	for _, name := range s.IgnoreUnready {
		if name == AllWorkloads {
			continue
		}
		if _, err := drain.ParseWorkload(name); err != nil {
			return fmt.Errorf("--ignore-unready=%s: %w, or %s for all", name, err, AllWorkloads)
		}
	}
	return nil
}

// minimal is EKS's update strategy that adds no node (EKS E09).
const minimal = "minimal"

// UpdateStrategies are EKS's words for whether nodes are added first (EKS E09).
func UpdateStrategies() []string { return []string{"default", minimal} }

// checkUpdateStrategy refuses an update strategy that is none of EKS's, or that contradicts what is
// asked for beside it.
func (s *Settings) checkUpdateStrategy() error {
	switch {
	case s.UpdateStrategy == "":
		return nil
	case !slices.Contains(UpdateStrategies(), s.UpdateStrategy):
		return fmt.Errorf("--update-strategy=%s is not known: use %s", s.UpdateStrategy, strings.Join(UpdateStrategies(), " or "))
	case s.Strategy != "" && s.Strategy != Surge:
		return fmt.Errorf("--update-strategy=%s is of the strategy %s: leave it or --strategy=%s out", s.UpdateStrategy, Surge, s.Strategy)
	case s.UpdateStrategy == minimal && s.MaxSurge != nil && s.MaxSurge.N > 0:
		return fmt.Errorf("--update-strategy=%s adds no node: leave --max-surge=%s out", minimal, s.MaxSurge)
	}
	return nil
}

// checkBlueGreen refuses settings of the strategy BlueGreen that make no sense (GKE G50), and those
// that it has no use for.
func (s *Settings) checkBlueGreen() error {
	if s.Strategy != BlueGreen {
		if s.Batch != nil || s.BatchSoak != nil || s.Soak != nil {
			return fmt.Errorf("--batch, --batch-soak and --soak: only --strategy=%s has batches that soak: add it, or leave them out", BlueGreen)
		}
		return nil
	}
	if err := cmp.Or(checkSoak("batch-soak", s.BatchSoak), checkSoak("soak", s.Soak)); err != nil {
		return err
	}
	if s.MaxSurge != nil || s.MaxUnavailable != nil || s.BatchBarrier {
		return fmt.Errorf("--max-surge, --max-unavailable and --batch-barrier: --strategy=%s adds a node for each outdated one and drains --batch nodes at once: leave them out", BlueGreen)
	}
	return nil
}

// checkAutoscaled refuses settings of the strategy AutoscaledBlueGreen that make no sense (GKE
// G71), and those that it has no use for.
func (s *Settings) checkAutoscaled() error {
	if s.Strategy != AutoscaledBlueGreen {
		if s.WaitForDrain != nil {
			return fmt.Errorf("--wait-for-drain: only --strategy=%s waits before it drains: add it, or leave it out", AutoscaledBlueGreen)
		}
		return nil
	}
	switch {
	case s.WaitForDrain != nil && (*s.WaitForDrain < 0 || *s.WaitForDrain > mostSoak):
		return fmt.Errorf("--wait-for-drain=%s is not from 0 to %s", s.WaitForDrain, mostSoak)
	case s.MaxSurge != nil || s.MaxUnavailable != nil || s.BatchBarrier:
		return fmt.Errorf("--max-surge, --max-unavailable and --batch-barrier: --strategy=%s adds no node and drains up to %d at once: leave them out", AutoscaledBlueGreen, mostDrainedAtOnce)
	case s.OnTimeout != "" && s.OnTimeout != Force:
		return fmt.Errorf("--on-timeout=%s: --strategy=%s deletes the pods that are left when a node's time is over: leave it out", s.OnTimeout, AutoscaledBlueGreen)
	}
	return nil
}

// checkShortLived refuses settings of drains, of which there are none.
func (s *Settings) checkShortLived() error {
	if s.Strategy != ShortLived {
		return nil
	}
	others := *s
	others.Strategy, others.Current = "", nil
	if flag := others.firstForOthers(); flag != "" {
		return fmt.Errorf("--%s: --strategy=%s drains and removes no node: leave it out", flag, ShortLived)
	}
	if s.MaxSurge != nil || s.MaxUnavailable != nil || s.OnTimeout != "" {
		return errors.New("--max-surge, --max-unavailable and --on-timeout: --strategy=" + string(ShortLived) + " drains and removes no node: leave them out")
	}
	return nil
}

func checkSoak(flag string, soak *time.Duration) error {
	if soak == nil || (*soak >= 0 && *soak <= mostSoak) {
		return nil
	}
	return fmt.Errorf("--%s=%s is not from 0 to %s, the longest that all soaks may take together", flag, soak, mostSoak)
}

// ResolveRequest fills in what was left open, from the model and the group as it is: size is its
// number of nodes, outdated how many of them are to be replaced. It returns an error for what Check
// refuses, on wishes that contradict each other and on those that leave no node that could ever be
// drained.
func (s Settings) ResolveRequest(group *nodegroup.Group, size, outdated int) (Request, error) {
	err := s.Check()
	if err != nil {
		return Request{}, err
	}
	if group.Managed != nil {
		return s.resolveDelegated(group, size)
	}
	if s.Strategy == Delegated {
		return Request{}, fmt.Errorf("--strategy=%s: no cloud upgrades group %q by itself: leave it out", Delegated, group.Name)
	}
	like := cmp.Or(s.Like, nodegroup.InfoOf(group.Provider).Model)
	model := defaultsOf(like)
	req := Request{
		Group: group.Name, Strategy: cmp.Or(s.Strategy, Surge), Like: like, To: s.To, Current: s.Current,
		BatchBarrier: s.BatchBarrier, EvictUnmanaged: s.EvictUnmanaged, RespectDoNotDisrupt: s.RespectDoNotDisrupt,
		KeepMax: s.KeepMax, KeepFence: s.KeepFence, WaitReplacement: s.WaitReplacement,
		NoImplicitBudgets: s.NoImplicitBudgets, IgnoreUnready: s.IgnoreUnready, Move: s.Move,
		DrainTimeout: Duration{valueOrDefault(s.DrainTimeout, model.drainTimeout)}, Settle: Duration{valueOrDefault(s.Settle, model.settle)},
		BootTimeout: Duration{s.BootTimeout}, OnTimeout: cmp.Or(s.OnTimeout, model.onTimeout),
	}
	switch s.Strategy {
	case BlueGreen:
		return s.resolveBlueGreen(req, group, size, outdated)
	case AutoscaledBlueGreen:
		req.DrainTimeout, req.OnTimeout = Duration{valueOrDefault(s.DrainTimeout, mostBudgetTime)}, Force
		req.WaitForDrain, req.Window = Duration{valueOrDefault(s.WaitForDrain, defaultWait)}, mostDrainedAtOnce
		req.To = cmp.Or(s.To, group.Wanted.Target()) // within the wait a template may move on
		return req, fitsAutoscaled(group, &req, outdated)
	case ShortLived:
		req.To = cmp.Or(s.To, group.Wanted.Target()) // within a week a template may move on
		return req, fitsShortLived(group, &req, outdated)
	}
	return s.resolveWidth(req, group, size, outdated)
}

// resolveWidth completes the request for a surge upgrade: how many nodes are added, and how many
// are upgraded at once. GKE's numbers are those of a zone, one of which has its turn at a time, so
// that they hold for the whole group, too (GKE G10, G12, G14).
func (s Settings) resolveWidth(req Request, group *nodegroup.Group, size, outdated int) (Request, error) {
	unavailable := valueOrDefault(s.MaxUnavailable, defaultsOf(req.Like).maxUnavailable)
	surge := valueOrDefault(s.MaxSurge, nodegroup.Quantity{N: 1})
	err := cmp.Or(checkPerZone("max-unavailable", unavailable, group), checkPerZone("max-surge", surge, group))
	if err != nil {
		return Request{}, err
	}
	if req.TakesTurns() {
		unavailable.PerZone, surge.PerZone = false, false
		if group.Sized || s.MaxSurge != nil {
			s.MaxSurge = &surge
		}
	}
	if req.MaxUnavailable, err = unavailable.ResolveUnavailable(size); err != nil {
		return Request{}, fmt.Errorf("--max-unavailable: %w", err)
	}
	if req.Surge, err = s.resolveSurge(group, req.MaxUnavailable, size, outdated); err != nil {
		return Request{}, err
	}
	req.Window = req.MaxUnavailable
	switch {
	case req.TakesTurns():
		req.Surge = min(req.Surge, maxSurgeWindow)
		req.MaxUnavailable = min(req.MaxUnavailable, maxSurgeWindow-req.Surge)
		req.Window = req.Surge + req.MaxUnavailable
	case req.Window == 0:
		req.Window = min(req.Surge, maxSurgeWindow)
	}
	if req.Window == 0 && outdated > 0 {
		return Request{}, s.describeNoWidth(group, req.Like)
	}
	return req, nil
}

// describeNoWidth returns the error for settings that allow no node to be drained. It names the flags that the
// user typed.
func (s *Settings) describeNoWidth(group *nodegroup.Group, like string) error {
	switch {
	case s.MaxUnavailable != nil:
		return fmt.Errorf("--max-unavailable=%s without surge leaves no node that could be drained: raise --max-unavailable or --max-surge", s.MaxUnavailable)
	case !group.Sized:
		return fmt.Errorf("--like=%s: such an upgrade adds a node before it drains one, and provider %s cannot add nodes: pass --max-unavailable=1", like, group.Provider)
	default:
		return fmt.Errorf("no node is added, and like %s none may be unavailable, so that none could be drained: pass --max-unavailable=1", like)
	}
}

// checkPerZone refuses numbers of a zone for a group without zones.
func checkPerZone(flag string, q nodegroup.Quantity, group *nodegroup.Group) error {
	if !q.PerZone || len(group.Zones) > 0 {
		return nil
	}
	return fmt.Errorf("--%s=%s: group %q has no zones: write %d", flag, q, group.Name, q.N)
}

// resolveBlueGreen completes the request for a blue-green upgrade: a node is added for each
// outdated one, and the target stays the one that it begins with, however long it takes.
func (s Settings) resolveBlueGreen(req Request, group *nodegroup.Group, size, outdated int) (Request, error) {
	fits := strategyOf(BlueGreen, false).fits
	if !group.Sized { // what is wrong is the strategy, and no number
		return Request{}, fits(group, &req, outdated)
	}
	batch, err := valueOrDefault(s.Batch, nodegroup.Quantity{N: 1}).ResolveBatch(outdated)
	if err != nil {
		return Request{}, fmt.Errorf("--batch: %w", err)
	}
	req.BlueGreen = &BlueGreenRequest{
		Batch: batch, BatchSoak: Duration{valueOrDefault(s.BatchSoak, 0)}, Soak: Duration{valueOrDefault(s.Soak, time.Hour)}, // GKE G47, G49
	}
	req.Window, req.To = max(1, batch), cmp.Or(s.To, group.Wanted.Target())
	s.MaxSurge = &nodegroup.Quantity{N: outdated}
	if req.Surge, err = s.resolveSurge(group, 0, size, outdated); err != nil {
		return Request{}, err
	}
	return req, fits(group, &req, outdated)
}

// resolveSurge is how many nodes are added: what was asked for, or EKS's "up to" rule min(max(2 ×
// zones, maxUnavailable), outdated) (E21, E23); never more than are outdated, and none without a
// cloud.
func (s Settings) resolveSurge(group *nodegroup.Group, unavailable, size, outdated int) (int, error) {
	surge := max(2*len(group.Zones), unavailable)
	switch {
	case s.UpdateStrategy == minimal:
		surge = 0
	case s.MaxSurge != nil:
		surge = s.MaxSurge.ResolveSurge(size, len(group.Zones))
	}
	surge = min(surge, outdated)
	if !group.Sized {
		if s.MaxSurge != nil && s.MaxSurge.N > 0 {
			return 0, fmt.Errorf("--max-surge=%s: provider %s cannot add nodes: leave it out", s.MaxSurge, group.Provider)
		}
		return 0, nil
	}
	if !s.KeepMax || surge == 0 {
		return surge, nil
	}
	remedy := "pass --max-surge=0 or leave --keep-max out"
	if s.Strategy == BlueGreen { // which takes no width
		remedy = "leave --keep-max out"
	}
	room := max(0, group.Max-group.Desired)
	switch {
	case !group.Zonal: // the raise is the only proof that a launch has landed, since it bears no token
		return 0, fmt.Errorf("--keep-max: group %q can only grow together with its max: %s", group.Name, remedy)
	case room == 0:
		return 0, fmt.Errorf("--keep-max: group %q is at its max of %d, so no node can be added: %s, or raise its max", group.Name, group.Max, remedy)
	}
	return min(surge, room), nil
}

// resolveDelegated is the request for a group that its cloud upgrades: the numbers are the cloud's
// own, and what was asked for beside them is refused.
func (s Settings) resolveDelegated(group *nodegroup.Group, size int) (Request, error) {
	manager := nodegroup.InfoOf(group.Provider).Manager
	if s.MaxUnavailable != nil || s.MaxSurge != nil {
		return Request{}, fmt.Errorf("--max-unavailable and --max-surge: %s upgrades group %q by the group's own settings, which %s changes", manager, group.Name, group.Managed.ChangeWidth)
	}
	if flag := s.firstForOthers(); flag != "" {
		return Request{}, fmt.Errorf("--%s: %s upgrades group %q itself, by its own rules: leave it out", flag, manager, group.Name)
	}
	like := nodegroup.InfoOf(group.Provider).Model
	model := defaultsOf(like)
	req := Request{
		Group: group.Name, Strategy: Delegated, Like: like, To: cmp.Or(group.Wanted.Target(), s.To), EvictUnmanaged: true,
		DrainTimeout: Duration{model.drainTimeout}, Settle: Duration{model.settle}, BootTimeout: Duration{s.BootTimeout}, OnTimeout: cmp.Or(s.OnTimeout, Fail),
	}
	var err error
	if req.MaxUnavailable, err = group.Managed.MaxUnavailable.ResolveUnavailable(size); err != nil {
		return Request{}, fmt.Errorf("reading how many nodes of group %q may be unavailable: %w", group.Name, err)
	}
	req.Window = req.MaxUnavailable
	if !group.Managed.TerminateFirst {
		req.Surge = max(2*len(group.Zones), req.MaxUnavailable) // EKS E21
	}
	return req, nil
}

// firstForOthers is a flag that was given and that only a group which this tool drives can obey.
func (s *Settings) firstForOthers() string {
	given := []struct {
		flag string
		is   bool
	}{
		{"strategy", s.Strategy != "" && s.Strategy != Delegated},
		{"like", s.Like != "" && s.Like != "eks"},
		{"update-strategy", s.UpdateStrategy != ""},
		{"current", len(s.Current) > 0},
		{"drain-timeout", s.DrainTimeout != nil},
		{"settle", s.Settle != nil},
		{"on-timeout=skip", s.OnTimeout == Skip},
		{"batch", s.Batch != nil},
		{"batch-soak", s.BatchSoak != nil},
		{"soak", s.Soak != nil},
		{"wait-for-drain", s.WaitForDrain != nil},
		{"batch-barrier", s.BatchBarrier},
		{"unmanaged-pods", s.EvictUnmanaged},
		{"respect-do-not-disrupt", s.RespectDoNotDisrupt},
		{"implicit-budgets", s.NoImplicitBudgets},
		{"move", s.Move == MoveBySurge},
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

// joinStrategyNames writes all strategies as a choice: "surge, short-lived or delegated".
func joinStrategyNames() string {
	var names []string
	for _, strategy := range Strategies() {
		names = append(names, string(strategy))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
