package upgrade

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// maxExpiry is how long outdated nodes may take to end by themselves (GKE G90).
const maxExpiry = 7 * 24 * time.Hour

// shortLivedStrategy returns GKE's strategy for nodes that end by themselves within a week. The group is pointed at the
// wanted revision, and no node is fenced, drained or removed (GKE G90).
func shortLivedStrategy() strategy {
	abort := []record.Verb{record.VerbAbort}
	return strategy{
		begin: func(*decision) {},
		check: checkShortLived, resolve: resolveShortLived, describe: describeShortLived,
		phases: []phase{
			{
				name: record.PhaseSetup, beforeDrains: true, suspendsNothing: true, verbs: abort,
				run: (*decision).setRevision,
			},
			{
				name: record.PhaseExpire, suspendsNothing: true, verbs: abort,
				run: func(d *decision) bool { return d.setRevision() && d.awaitExpiry() },
			},
		},
		stop: (*decision).bringToRest,
		undo: (*decision).undoUpgrade,
	}
}

// checkShortLived returns an error for settings of drains, because the strategy drains no node.
func checkShortLived(s *Settings) error {
	others := *s
	others.Strategy, others.Current = "", nil
	if flag := others.firstNonDelegatedFlag("eks"); flag != "" {
		return fmt.Errorf("--%s: --strategy=%s drains and removes no node: remove the flag", flag, record.ShortLived)
	}
	if s.MaxSurge != nil || s.MaxUnavailable != nil || s.OnTimeout != "" {
		return errors.New("--max-surge, --max-unavailable and --on-timeout: --strategy=" + string(record.ShortLived) + " drains and removes no node: remove the flags")
	}
	return nil
}

// resolveShortLived completes the request.
func resolveShortLived(s Settings, req record.Request, group *nodegroup.Group, _, outdated int) (record.Request, error) {
	req.To = cmp.Or(s.To, group.Wanted.Target()) // the template may change within the week
	return req, checkGroupShortLived(group, &req, outdated)
}

// describeShortLived returns the line of a plan.
func describeShortLived(r *record.Request, _ string) string {
	return fmt.Sprintf("%s: new nodes are current; no node is fenced, drained or removed; the nodes that are left are listed for a week", r.Strategy)
}

// checkGroupShortLived returns an error if the provider cannot launch nodes: nothing would replace nodes that end.
func checkGroupShortLived(group *nodegroup.Group, _ *record.Request, _ int) error {
	if group.Can.Resize {
		return nil
	}
	return fmt.Errorf("--strategy=%s: groups of provider %s launch no nodes, so there is no revision to set: use %s", record.ShortLived, group.Provider, record.Surge)
}

// awaitExpiry waits until no outdated node is left or a week is over, and lists the nodes that are left. A process that
// does not stay lists them and exits, and the same command checks again later.
func (d *decision) awaitExpiry() (done bool) {
	left := len(d.count.pending)
	d.rec.Replaced = d.rec.Total - left
	if left == 0 {
		return true
	}
	names := make([]string, 0, left)
	for _, m := range d.count.pending {
		names = append(names, m.Name())
	}
	end := d.rec.Started.Add(maxExpiry)
	text := fmt.Sprintf("%d of %d nodes are left (%s)", left, d.rec.Total, abbreviateNames(names))
	switch {
	case !d.w.Now.Before(end):
		d.endUpgradeWith(record.LeftBehind, text+": they should have ended within a week")
	case !d.w.Stay && d.hasNothingOpen() && end.Sub(d.w.Now) > longWait:
		d.endUpgradeWith(record.Waiting, text+"; they end on their own until "+end.UTC().Format(time.RFC3339))
	default:
		d.setWaiting("outdated nodes to end on their own, until " + end.UTC().Format(time.RFC3339))
		d.requeueAt(end)
	}
	return false
}
