package report

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// reportDelay is how long pods wait for a budget before the wait is reported. Every drain waits for a short
// time.
const reportDelay = 3 * time.Second

// Wait is what one node waits for: a budget that refuses some evictions, or one pod with another obstacle.
type Wait struct {
	Node, Cause, Remedy string
	Pods                int
	Since               time.Time
	// Until is when the cloud that drains the node gives up, deletes the pods if Forces is true, or goes on without them if
	// Lingers is true. It is zero if this tool drains the node.
	Until           time.Time
	Forces, Lingers bool
	// Lasting is true if a user must end the wait, or if it has lasted longer than reportDelay.
	Lasting bool
	// key identifies the wait at different moments, even if the numbers in its cause change.
	key string
}

// CollectWaits groups the blocked pods of each node by what they wait for. The waits are sorted by their first
// pods.
func CollectWaits(blocked []drain.Blocked, now time.Time) []Wait {
	var waits []Wait
	at := map[string]int{}
	for _, b := range blocked {
		key := b.Node + "/" + string(b.Kind) + "/" + b.Budget.String()
		if b.Budget.Name == "" {
			key += b.Pod.String()
		}
		if !b.Until.IsZero() {
			key += "/limited"
		}
		i, known := at[key]
		if !known {
			i = len(waits)
			at[key] = i
			waits = append(waits, Wait{key: key, Node: b.Node, Cause: b.String(), Remedy: b.Remedy(), Since: b.Since, Until: b.Until, Forces: b.Forces, Lingers: b.Lingers})
		}
		w := &waits[i]
		w.Pods++
		if b.Since.Before(w.Since) {
			w.Since = b.Since
		}
		w.Lasting = w.Lasting || b.NeedsPerson() || now.Sub(b.Since) >= reportDelay
	}
	return waits
}

// String returns the cause and the remedy in one line.
func (w Wait) String() string {
	text := w.Cause
	if w.Pods > 1 {
		text += fmt.Sprintf(" and %s more", formatCount(w.Pods-1, "pod"))
	}
	return text + ": " + w.Remedy
}

// formatTimeLimit returns how long the cloud that drains the node will still try, "" if this tool drains it.
func (w Wait) formatTimeLimit(manager string, now time.Time) string {
	if w.Until.IsZero() {
		return ""
	}
	what, pods := "gives up", "it"
	if w.Pods > 1 {
		pods = "them"
	}
	switch {
	case w.Lingers:
		what = "goes on without " + pods
	case w.Forces:
		what = "deletes " + pods
	}
	return fmt.Sprintf(" (%s %s in %s)", manager, what, duration.HumanDuration(max(0, w.Until.Sub(now))))
}

// formatDuration returns how long the wait has lasted, in kubectl's short form.
func (w Wait) formatDuration(now time.Time) string {
	if d := now.Sub(w.Since); d >= time.Second {
		return ", for " + duration.HumanDuration(d)
	}
	return ""
}
