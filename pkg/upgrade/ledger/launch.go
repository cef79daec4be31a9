package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// movedPause is how long to wait before repeating a launch that was refused because the group had changed: the group
// must be read again first.
const movedPause = 10 * time.Second

// KeepSurgeLaunched keeps each zone's contribution at its surge while the zone has that many outdated nodes left. It
// replaces a node that a termination gives back only once the cloud has begun the termination. A launch that arrived
// earlier would make the group larger than its surge allows, and its maximum may forbid that.
func (k Keeper) KeepSurgeLaunched() Decision {
	if !k.Group.Can.Resize || (k.l.LaunchRefusal() != "" && !k.raiseMaximum()) {
		return k.decided
	}
	if len(k.Counts.Shrinking) == 0 {
		k.lendSurgeToZones()
	}
	for _, zone := range k.l.zoneNames() {
		z := k.l.books.Zones[zone]
		missing := min(z.Surge, k.Counts.Left[zone]) - z.Contribution() - k.Counts.Shrinking[zone]
		if k.Now.Before(z.RetryAt) {
			if len(z.Open) > 0 {
				k.pollCloudSoon("")
			}
			k.requeueAt(z.RetryAt)
			continue
		}
		if missing > 0 && (!k.l.books.Zonal || ZoneLaunchRefusal(k.Open) == "") {
			k.recordLaunches(zone, missing)
		}
		k.requestLaunches(zone)
	}
	return k.decided
}

// LaunchMissing launches the nodes that zones lack because of the upgrade: terminated nodes that were not replaced yet.
// It does not repeat a launch that was refused.
func (k Keeper) LaunchMissing() Decision {
	even := k.resolveOpenLaunches()
	for _, zone := range k.l.zoneNames() {
		z := k.l.books.Zones[zone]
		missing := -z.Contribution() - k.Counts.Shrinking[zone]
		if missing <= 0 || !z.admitsLaunch(missing, k.Group) {
			continue
		}
		even = false
		if k.Now.Before(z.RetryAt) {
			k.pollCloudSoon("")
			k.requeueAt(z.RetryAt)
			continue
		}
		k.recordLaunches(zone, missing)
		k.requestLaunches(zone)
	}
	return k.finishDecision(even)
}

// admitsLaunch reports whether a launch of n nodes may be requested: the zone's last launch was not refused, or was
// refused only because the group had changed and the group has room now.
func (z Zone) admitsLaunch(n int, group *nodegroup.Group) bool {
	return z.Refusal == "" || (z.Stale && group.Desired+n <= group.Max)
}

// ResolveOpenLaunches finds out what happened to launches whose answers were lost. Done is true once that is known for
// all. A launch with a token is requested again, which launches no second node. For a launch without a token the
// group's maximum shows whether it landed.
func (k Keeper) ResolveOpenLaunches() Decision {
	return k.finishDecision(k.resolveOpenLaunches())
}

func (k *Keeper) resolveOpenLaunches() bool {
	for _, zone := range k.l.zoneNames() {
		for _, launch := range k.l.books.Zones[zone].Open {
			k.pollCloudSoon("")
			if launch.Max > 0 && k.Group.IsFreshAfter(k.PhaseBegan) && k.lastAttempt(k.launchAction(zone, launch)).Begun.IsZero() {
				k.l.closeLaunch(zone, launch, false)
			}
		}
		if k.l.books.Zonal {
			k.requestLaunches(zone)
		}
	}
	return k.l.OpenLaunches() == 0
}

// requestLaunches sends the zone's open launches.
func (k *Keeper) requestLaunches(zone string) {
	for _, launch := range k.l.books.Zones[zone].Open {
		k.pollCloudSoon("")
		if add := k.launchAction(zone, launch); !k.isAwaitingProof(launch, k.lastAttempt(add)) {
			k.addAction(add)
		}
	}
}

// lendSurgeToZones gives zones without surge what other zones have given back. If no node may be unavailable, these
// zones could not begin otherwise (S6).
func (k *Keeper) lendSurgeToZones() {
	if k.Limits.MaxUnavailable > 0 || k.Limits.TakesTurns {
		return
	}
	free := k.Limits.Surge
	spare := map[string]int{} // by zone, the surge that it has given back
	for zone, z := range k.l.books.Zones {
		needed := max(z.Contribution(), min(z.Surge, k.Counts.Left[zone]))
		free -= needed
		spare[zone] = z.Surge - needed
	}
	for _, zone := range sortedZones(k.Counts.Left) {
		if free <= 0 || k.Counts.Left[zone] == 0 || k.l.books.Zones[zone].Surge > 0 {
			continue
		}
		for _, lender := range sortedZones(spare) {
			if spare[lender] > 0 {
				spare[lender]--
				k.l.updateZone(lender, func(z *Zone) { z.Surge-- })
				break
			}
		}
		k.l.updateZone(zone, func(z *Zone) { z.Surge = 1 })
		free--
	}
}

// recordLaunches records the launches to be made. A zonal provider gets one request per node, so that no answer can be
// a partial success. Another provider gets one request for all nodes, and no further request until that is answered:
// the maximum that proves one launch would also prove the other.
func (k *Keeper) recordLaunches(zone string, n int) {
	if !k.l.books.Zonal && k.l.OpenLaunches() > 0 {
		return
	}
	k.l.updateZone(zone, func(z *Zone) {
		z.Launched += n
		if !k.l.books.Zonal {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: n, Desired: k.Group.Desired, Max: k.maximumAfterLaunch(n)})
			return
		}
		for range n {
			z.Serial++
			z.Open = append(z.Open, Launch{Serial: z.Serial, N: 1})
		}
	})
}

func (k *Keeper) launchAction(zone string, l Launch) nodegroup.AddCapacity {
	return nodegroup.AddCapacity{Zone: zone, N: l.N, Desired: l.Desired, Max: max(0, l.Max-l.N), Token: Token(k.Run, zone, l.Serial)}
}

// RecordAnswers records the answers to launches and to the raise of the maximum. An observed effect counts as an
// answer.
func (k Keeper) RecordAnswers() {
	for zone, z := range k.l.books.Zones {
		for _, launch := range slices.Clone(z.Open) {
			k.recordAnswer(zone, launch)
		}
	}
	raise := k.lastAttempt(nodegroup.RaiseMax{Max: k.l.books.MaxTo})
	if raise.Outcome == nodegroup.OutcomeDone || raise.Outcome == nodegroup.OutcomeUnclear {
		k.l.NoteSizeChange(raise.Ended)
	}
}

func (k *Keeper) recordAnswer(zone string, launch Launch) {
	attempt := k.lastAttempt(k.launchAction(zone, launch))
	if lost := attempt.Begun.IsZero() || attempt.Outcome == nodegroup.OutcomeUnclear; lost && !launch.Doubt {
		launch.Doubt = true
		k.l.markLaunchDoubtful(zone, launch.Serial)
	}
	landed, refused := k.answerOfLaunch(launch, attempt)
	switch {
	case landed:
		k.l.closeLaunch(zone, launch, true)
		k.l.updateZone(zone, func(z *Zone) { z.Refusal, z.Stale = "", false })
		k.l.NoteSizeChange(cmp.Or(attempt.Ended, k.Now))
	case refused:
		k.l.closeLaunch(zone, launch, false)
		moved, retry := attempt.Outcome == nodegroup.OutcomeMoved, attempt.NotBefore
		if moved {
			retry = attempt.Ended.Add(movedPause)
		}
		k.l.updateZone(zone, func(z *Zone) {
			z.Refusal, z.Stale = attempt.Detail, moved
			if retry.After(z.RetryAt) {
				z.RetryAt = retry // several may be refused at once
			}
		})
	}
}

// markLaunchDoubtful records that the answer to a launch request was lost: the launch may have succeeded.
func (l *Ledger) markLaunchDoubtful(zone string, serial int) {
	l.updateZone(zone, func(z *Zone) {
		z.Open = slices.Clone(z.Open)
		for i := range z.Open {
			z.Open[i].Doubt = z.Open[i].Doubt || z.Open[i].Serial == serial
		}
	})
}

// closeLaunch removes a launch from the open ones. If the launch did not land, its nodes no longer count as launched.
func (l *Ledger) closeLaunch(zone string, launch Launch, landed bool) {
	l.updateZone(zone, func(z *Zone) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == launch.Serial })
		if !landed {
			z.Launched -= launch.N
		}
	})
	l.settleRaise(launch, landed)
}

// answerOfLaunch reports whether a launch is known to have been accepted or to have been refused. Both are false while
// neither is known. After a lost answer, a refusal for missing permissions proves nothing, because the cloud checks
// permissions before it looks at the token.
func (k *Keeper) answerOfLaunch(l Launch, attempt nodegroup.Attempt) (landed, refused bool) {
	final := []nodegroup.Outcome{nodegroup.OutcomeExhausted, nodegroup.OutcomeMoved, nodegroup.OutcomeFatal, nodegroup.OutcomeUnsupported}
	refused = slices.Contains(final, attempt.Outcome)
	switch {
	case attempt.InFlight:
		return false, false
	case attempt.Outcome == nodegroup.OutcomeDone:
		return true, false
	case refused && !l.Doubt:
		return false, true
	case l.Max > 0 && l.Doubt && k.Group.Max >= l.Max:
		return true, false
	case l.Max == 0 && attempt.Outcome == nodegroup.OutcomeFatal:
		return false, false
	default:
		return false, refused && !k.isAwaitingProof(l, attempt)
	}
}

// isAwaitingProof reports whether a launch without a token was refused so recently that the group's reading may not show an
// earlier try whose answer was lost.
func (k *Keeper) isAwaitingProof(l Launch, attempt nodegroup.Attempt) bool {
	maybe := attempt.Outcome == nodegroup.OutcomeMoved || attempt.Outcome == nodegroup.OutcomeFatal
	return l.Max > 0 && l.Doubt && maybe && !k.Group.IsFreshAfter(attempt.Ended)
}
