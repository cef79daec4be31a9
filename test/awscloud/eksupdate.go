package awscloud

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// UpdatePhase is a phase of a version update (EKS E01).
type UpdatePhase string

// The phases in order.
const (
	PhaseSetup     UpdatePhase = "setup"
	PhaseScaleUp   UpdatePhase = "scale up"
	PhaseUpgrade   UpdatePhase = "upgrade"
	PhaseScaleDown UpdatePhase = "scale down"
)

// updater carries out one version update.
type updater struct {
	region *region
	group  *nodegroup
	update *nodegroupUpdate

	// expected is the desired size that the update set last. The region's lock guards it.
	expected int

	mu     sync.Mutex      // guards the fields below, during the replacement of nodes
	taken  map[string]bool // ids of instances whose replacement has started
	failed *updateError
}

// updateError is the error with which an update fails.
type updateError struct{ detail ekstypes.ErrorDetail }

func (e *updateError) Error() string {
	return string(e.detail.ErrorCode) + ": " + aws.ToString(e.detail.ErrorMessage)
}

func newUpdateError(code ekstypes.ErrorCode, message string, resources ...string) *updateError {
	return &updateError{ekstypes.ErrorDetail{ErrorCode: code, ErrorMessage: aws.String(message), ResourceIds: resources}}
}

// run carries out the update and records its result. If ctx ends first, it returns without a result.
func (u *updater) run(ctx context.Context) {
	err := u.runPhases(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil && u.options().UncordonOnFail {
		for _, i := range u.outdated() {
			_ = u.drainer().Unfence(ctx, i.node) // only the update's own failure is reported
		}
	}
	_ = u.region.update(func(now time.Time) error {
		u.recordResult(err, now)
		return nil
	})
}

func (u *updater) runPhases(ctx context.Context) error {
	for _, p := range []struct {
		name UpdatePhase
		run  func(context.Context) error
	}{{PhaseSetup, u.setUp}, {PhaseScaleUp, u.scaleUp}, {PhaseUpgrade, u.replaceNodes}, {PhaseScaleDown, u.scaleDown}} {
		if err := u.enterPhase(p.name); err != nil {
			return err
		}
		if err := p.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// enterPhase records the phase and returns a failure if one is planned for it.
func (u *updater) enterPhase(p UpdatePhase) error {
	return u.region.update(func(time.Time) error {
		u.update.phase = p
		i := slices.IndexFunc(u.group.failures, func(f UpdateFailure) bool { return f.Phase == p })
		if i < 0 {
			return nil
		}
		f := u.group.failures[i]
		u.group.failures = slices.Delete(u.group.failures, i, i+1)
		return newUpdateError(f.Code, f.Message, f.ResourceIDs...)
	})
}

// recordResult records the result of the update. After a failure the Auto Scaling group keeps its size and still launches the
// new revision. EKS still shows the version and release of the last successful update.
func (u *updater) recordResult(err error, now time.Time) {
	n, shown := u.group, &u.update.shown
	u.update.draining = nil
	shown.Status = ekstypes.UpdateStatusSuccessful
	if err != nil {
		shown.Status = ekstypes.UpdateStatusFailed
		var e *updateError
		if !errors.As(err, &e) {
			e = newUpdateError(ekstypes.ErrorCodeUnknown, err.Error())
		}
		shown.Errors = []ekstypes.ErrorDetail{e.detail}
	} else {
		to := u.update.to
		n.shown.Version, n.shown.ReleaseVersion = aws.String(to.version), aws.String(to.release)
		n.shown.LaunchTemplate, n.before = to.template.eksSpecification(), nil
	}
	n.setStatus(n.statusWithoutUpdate(), now)
}

func (u *updater) options() EKSOptions { return u.region.opts.EKS }

func (u *updater) drainer() Drainer {
	if d := u.options().Drainer; d != nil {
		return d
	}
	return instanceDrainer{u.region}
}

func (u *updater) isMinimal() bool {
	return u.group.shown.UpdateConfig.UpdateStrategy == ekstypes.NodegroupUpdateStrategiesMinimal
}

// currentLabels returns the labels of a current node.
func (u *updater) currentLabels() map[string]string {
	return u.group.spec.identifyingLabels(u.update.to)
}

// outdated lists the instances without the labels of the new revision. Instances that an earlier, failed update has replaced
// have these labels, so they are not outdated (EKS E31).
func (u *updater) outdated() []instance {
	u.region.mu.Lock()
	defer u.region.mu.Unlock()
	return u.outdatedLocked()
}

func (u *updater) outdatedLocked() []instance {
	marks := u.currentLabels()
	return slices.DeleteFunc(u.region.liveMembers(u.group.group), func(i instance) bool { return hasLabels(i.spec.labels, marks) })
}

// setUp is the setup phase. It creates a new version of the launch template and points the Auto Scaling group at it (EKS E02,
// E03).
func (u *updater) setUp(ctx context.Context) error {
	if err := sleep(ctx, u.options().Setup); err != nil {
		return err
	}
	return u.region.update(func(now time.Time) error {
		r, n, to := u.region, u.group, u.update.to
		data := TemplateVersion{Image: to.image, InstanceType: n.spec.InstanceType, UserData: n.spec.userData(to)}.data()
		v := r.templates[n.template].addVersion(data, "", r.nextBirthOrder(), now)
		r.groups[n.group].mixed = n.spec.mixedPolicy(TemplateRef{ID: n.template, Version: strconv.Itoa(v.number)})
		return nil
	})
}

// scaleUp raises the group's size, waits for the new nodes and fences the old nodes. It does nothing with the strategy MINIMAL
// (EKS E50), or if no node is outdated.
func (u *updater) scaleUp(ctx context.Context) error {
	if u.isMinimal() {
		return nil
	}
	if !u.raiseSize() {
		return nil
	}
	if err := u.awaitNodes(ctx, u.areNewNodesReady); err != nil {
		return err
	}
	for _, i := range u.outdated() {
		if err := u.fence(ctx, i.node); err != nil {
			return err
		}
	}
	return nil
}

// raiseSize raises desired and maximum size by twice the number of zones or by maxUnavailable, whichever is more (EKS E21,
// E22). After failed updates, it starts from the size before the first failed update. It does nothing and returns false if no
// node is outdated.
func (u *updater) raiseSize() (raised bool) {
	old := u.outdated()
	_ = u.region.update(func(now time.Time) error {
		g, n := u.region.groups[u.group.group], u.group
		u.expected = g.desired
		if len(old) == 0 {
			return nil
		}
		if n.before == nil {
			n.before = &groupSize{g.max, g.desired}
		}
		surge := max(2*len(g.spec.Zones), u.maxUnavailable())
		g.max = max(g.max, n.before.max+surge)
		g.setDesired(max(g.desired, n.before.desired+surge), now, "an update of the managed node group")
		u.expected = g.desired
		return nil
	})
	return len(old) > 0
}

// maxUnavailable returns how many nodes may be unavailable at the same time (EKS E05, E06). A percentage is rounded down, but to at least
// one node (EKS E08).
func (u *updater) maxUnavailable() int {
	c := u.group.shown.UpdateConfig
	if c.MaxUnavailablePercentage == nil {
		return int(aws.ToInt32(c.MaxUnavailable))
	}
	size := u.region.groups[u.group.group].desired
	if u.group.before != nil {
		size = u.group.before.desired
	}
	return max(1, min(100, size*int(*c.MaxUnavailablePercentage)/100))
}

// areNewNodesReady reports whether every zone with an old node has a new node (EKS E25), and all new nodes are Ready and
// labelled (EKS E26, E27). notReady lists the new instances that are not Ready and labelled.
func (u *updater) areNewNodesReady(ctx context.Context) (ready bool, notReady []string) {
	u.region.mu.Lock()
	members, old := u.region.liveMembers(u.group.group), u.outdatedLocked()
	u.region.mu.Unlock()
	zones := map[string]bool{}
	for _, i := range old {
		zones[i.zone] = true
	}
	for _, i := range members {
		if slices.ContainsFunc(old, func(o instance) bool { return o.id == i.id }) {
			continue
		}
		delete(zones, i.zone)
		if ok, err := u.drainer().IsReady(ctx, i.node, u.currentLabels()); err != nil || !ok {
			notReady = append(notReady, i.id)
		}
	}
	return len(zones) == 0 && len(notReady) == 0, notReady
}

// awaitNodes waits until condition reports that the new nodes are ready. After EKSOptions.NodeLimit it fails as EKS does (EKS
// E33).
func (u *updater) awaitNodes(ctx context.Context, condition func(context.Context) (ready bool, notReady []string)) error {
	late := time.Now().Add(u.options().NodeLimit)
	for {
		ready, notReady := condition(ctx)
		if ready {
			return nil
		}
		if time.Now().After(late) {
			return newUpdateError(ekstypes.ErrorCodeNodeCreationFailure,
				"Couldn't proceed with upgrade process as new nodes are not joining node group "+u.group.spec.Name, notReady...)
		}
		if err := sleep(ctx, 5*u.region.opts.Tick); err != nil {
			return err
		}
	}
}

// fence keeps new pods off a node. The update fails if the API server refuses (EKS E30).
func (u *updater) fence(ctx context.Context, node string) error {
	if err := u.drainer().Fence(ctx, node, u.options().TaintFirst); err != nil {
		return newUpdateError(ekstypes.ErrorCodeClusterUnreachable, err.Error(), node)
	}
	return nil
}

// replaceNodes replaces the old nodes in a random order, maxUnavailable nodes at a time (EKS E40). After a failure no further
// replacement starts. replaceNodes waits for the running replacements, so the update's error can name several nodes.
func (u *updater) replaceNodes(ctx context.Context) error {
	u.taken = map[string]bool{}
	u.region.mu.Lock()
	width, draw := u.maxUnavailable(), rand.New(rand.NewPCG(u.options().Seed, uint64(len(u.group.updates))))
	u.region.mu.Unlock()
	var turns sync.WaitGroup
	for range width {
		turns.Go(func() {
			for i, ok := u.takeNode(draw); ok && ctx.Err() == nil; i, ok = u.takeNode(draw) {
				u.recordFailure(u.replaceNode(ctx, i))
			}
		})
	}
	turns.Wait()
	if u.failed != nil {
		return u.failed
	}
	return ctx.Err()
}

// takeNode picks a random old node that was not taken yet. ok is false if there is none, or if a replacement has failed.
func (u *updater) takeNode(draw *rand.Rand) (i instance, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := slices.DeleteFunc(u.outdated(), func(i instance) bool { return u.taken[i.id] })
	if len(left) == 0 || u.failed != nil {
		return instance{}, false
	}
	i = left[draw.IntN(len(left))]
	u.taken[i.id] = true
	return i, true
}

// recordFailure stores the first failure as the failure of the update. It adds the resources of later failures with the same
// code.
func (u *updater) recordFailure(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var e *updateError
	if err != nil && !errors.As(err, &e) {
		e = newUpdateError(ekstypes.ErrorCodeUnknown, err.Error())
	}
	switch {
	case e == nil:
	case u.failed == nil:
		u.failed = e
	case u.failed.detail.ErrorCode == e.detail.ErrorCode:
		u.failed.detail.ResourceIds = append(u.failed.detail.ResourceIds, e.detail.ResourceIds...)
	}
}

// replaceNode drains a node, waits for EKSOptions.Settle, and makes the Auto Scaling group terminate and replace the node (EKS
// E44). With the strategy MINIMAL it fences the node first, and waits for the new node (EKS E09, E50).
func (u *updater) replaceNode(ctx context.Context, i instance) error {
	u.setDraining(func(nodes []string) []string { return append(nodes, i.node) })
	if u.isMinimal() {
		if err := u.fence(ctx, i.node); err != nil {
			return err
		}
	}
	if err := u.drain(ctx, i.node); err != nil {
		return err
	}
	if err := sleep(ctx, u.options().Settle); err != nil {
		return err
	}
	if err := u.terminate(ctx, i, false); err != nil {
		return err
	}
	u.setDraining(func(nodes []string) []string {
		return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return node == i.node })
	})
	if u.isMinimal() {
		return u.awaitNodes(ctx, u.isGroupFull)
	}
	return nil
}

func (u *updater) setDraining(change func([]string) []string) {
	_ = u.region.update(func(time.Time) error {
		u.update.draining = change(u.update.draining)
		return nil
	})
}

// drain evicts a node's pods. If pods are left at the time limit, the update fails (EKS E41, E42). With force, drain deletes
// these pods instead (EKS E43). The failure names the node and not the pod (EKS E52).
func (u *updater) drain(ctx context.Context, node string) error {
	limit := u.options().DrainLimit
	err := u.region.drainWhenAllowed(ctx, u.drainer(), node, limit)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if !u.update.force {
		return newUpdateError(ekstypes.ErrorCodePodEvictionFailure,
			"Reached max retries while trying to evict pods from nodes in node group "+u.group.spec.Name, node)
	}
	_ = u.drainer().DeletePods(ctx, node, limit) // with force the node is replaced even if pods are left
	return ctx.Err()
}

// terminate makes the Auto Scaling group terminate an instance and waits until it is gone. An instance that is already gone is no
// error.
func (u *updater) terminate(ctx context.Context, i instance, decrement bool) error {
	err := u.region.update(func(now time.Time) error {
		g := u.region.groups[i.group]
		if !isLive(u.region.instances[i.id]) {
			return nil
		}
		if decrement {
			u.expected--
			g.max = max(g.max-1, u.group.before.max)
		}
		_, err := u.region.terminateAll(g, []string{i.id}, decrement, now)
		return err
	})
	if err != nil {
		return err
	}
	_, err = u.region.waitUntil(ctx, u.options().NodeLimit, func() bool {
		now, known := u.region.instances[i.id]
		return !known || now.left
	})
	return err
}

// isGroupFull reports whether the group has its desired size and all its current nodes are Ready. notReady lists the current
// instances whose nodes are not Ready.
func (u *updater) isGroupFull(ctx context.Context) (full bool, notReady []string) {
	u.region.mu.Lock()
	members, marks := u.region.liveMembers(u.group.group), u.currentLabels()
	full = totalUnits(members) >= u.region.groups[u.group.group].desired
	u.region.mu.Unlock()
	for _, i := range members {
		if !hasLabels(i.spec.labels, marks) {
			continue
		}
		if ok, err := u.drainer().IsReady(ctx, i.node, marks); err != nil || !ok {
			notReady = append(notReady, i.id)
		}
	}
	return full && len(notReady) == 0, notReady
}

// scaleDown lowers the group to its size before the update, one node at a time (EKS E60). It drains each node, at most until
// the drain's limit, and terminates the node. If an autoscaler raised the group during the update, scaleDown succeeds
// immediately and keeps the sizes (EKS E61).
func (u *updater) scaleDown(ctx context.Context) error {
	for {
		i, ok := u.nextSurplus()
		if !ok {
			return nil
		}
		if err := u.fence(ctx, i.node); err != nil {
			return err
		}
		// The node is terminated even if pods are left.
		_ = u.region.drainWhenAllowed(ctx, u.drainer(), i.node, u.options().DrainLimit)
		if err := u.terminate(ctx, i, true); err != nil {
			return err
		}
	}
}

// nextSurplus returns the instance that the group would terminate next. ok is false if the group has its size before the
// update, if an autoscaler has raised that size, or if all instances are protected.
func (u *updater) nextSurplus() (i instance, ok bool) {
	u.region.mu.Lock()
	defer u.region.mu.Unlock()
	g, before := u.region.groups[u.group.group], u.group.before
	if before == nil || g.desired > u.expected || g.desired <= before.desired {
		return instance{}, false
	}
	return nextToTerminate(u.region.liveMembers(g.name))
}
