package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// movedPause is how long a launch is not repeated after the group's state did not allow it. The group must be read again
// first.
const movedPause = 10 * time.Second

// KeepSurgeLaunched keeps each zone's contribution at its surge while the zone has that many outdated nodes left. A
// termination that shrinks the group is followed by a launch only once the cloud has begun the termination. An earlier
// launch would make the group larger than its surge allows, and the group's maximum may forbid that.
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

// LaunchMissing launches nodes that were removed and not replaced yet, so that no zone is smaller because of the upgrade.
// A refused launch is not repeated.
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

// admitsLaunch reports whether a launch of n nodes may be requested. The zone's last launch was not refused, or it was
// refused only because the group had changed and the group has room now.
func (z Zone) admitsLaunch(n int, group *nodegroup.Group) bool {
	return z.Refusal == "" || (z.Stale && group.Desired+n <= group.Max)
}

// ResolveOpenLaunches finds out which of the launches without an answer happened, until that is known for all. It repeats
// a launch with a token, which has no second effect. A launch without a token shows in the group's maximum.
func (k Keeper) ResolveOpenLaunches() Decision {
	return k.finishDecision(k.resolveOpenLaunches())
}

// resolveOpenLaunches requests the open launches again, and reports whether the answers to all launches are known.
func (k *Keeper) resolveOpenLaunches() (done bool) {
	for _, zone := range k.l.zoneNames() {
		for _, launch := range k.l.books.Zones[zone].Open {
			k.pollCloudSoon("")
			if launch.Max > 0 && k.Group.IsFreshAfter(k.PhaseBegan) && k.lastAttempt(k.actionOf(zone, launch)).Begun.IsZero() {
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
		if add := k.actionOf(zone, launch); !k.isAwaitingProof(launch, k.lastAttempt(add)) {
			k.addAction(add)
		}
	}
}

// lendSurgeToZones gives zones without surge the surge that other zones have returned. If no node may be missing, such
// zones could not begin otherwise (S6).
func (k *Keeper) lendSurgeToZones() {
	if k.Limits.MaxUnavailable > 0 || k.Limits.TakesTurns {
		return
	}
	free := k.Limits.Surge
	spare := map[string]int{} // by zone, the part of its surge that is no longer in use
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

// recordLaunches enters launches in the ledger. A zonal provider gets one request per node, so that no request is half
// successful. Other providers get one request for all nodes. Their next request waits for the answer to this one, because
// the group's maximum could not show which of two requests landed.
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

// actionOf returns the action that requests the launch.
func (k *Keeper) actionOf(zone string, l Launch) nodegroup.AddCapacity {
	return nodegroup.AddCapacity{Zone: zone, N: l.N, Desired: l.Desired, Max: max(0, l.Max-l.N), Token: Token(k.Run, zone, l.Serial)}
}

// RecordAnswers enters the answers to launches and to the raise of the maximum in the ledger. An observed effect counts
// as an answer.
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
	attempt := k.lastAttempt(k.actionOf(zone, launch))
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
				z.RetryAt = retry // several launches may be refused together
			}
		})
	}
}

// markLaunchDoubtful records that the answer to a launch was lost, so that the launch may have succeeded.
func (l *Ledger) markLaunchDoubtful(zone string, serial int) {
	l.updateZone(zone, func(z *Zone) {
		z.Open = slices.Clone(z.Open)
		for i := range z.Open {
			z.Open[i].Doubt = z.Open[i].Doubt || z.Open[i].Serial == serial
		}
	})
}

// closeLaunch closes an open launch. If it did not land, it no longer counts as launched.
func (l *Ledger) closeLaunch(zone string, launch Launch, landed bool) {
	l.updateZone(zone, func(z *Zone) {
		z.Open = slices.DeleteFunc(z.Open, func(o Launch) bool { return o.Serial == launch.Serial })
		if !landed {
			z.Launched -= launch.N
		}
	})
	l.settleRaise(launch, landed)
}

// answerOfLaunch reports whether a launch was certainly accepted or certainly refused. Both are false while that is not
// known. After a lost answer, a refusal for missing permissions proves nothing, because the cloud checks permissions
// before the token.
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

// isAwaitingProof reports whether a doubtful launch without a token was refused after the group was last read. The
// reading cannot show yet whether an earlier try succeeded.
func (k *Keeper) isAwaitingProof(l Launch, attempt nodegroup.Attempt) bool {
	maybe := attempt.Outcome == nodegroup.OutcomeMoved || attempt.Outcome == nodegroup.OutcomeFatal
	return l.Max > 0 && l.Doubt && maybe && !k.Group.IsFreshAfter(attempt.Ended)
}
