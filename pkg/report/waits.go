package report

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// reportDelay is how long pods may wait for a budget to open before it is worth a line: every drain
// waits a little.
const reportDelay = 3 * time.Second

// Wait is what one node waits for: one budget that holds some of its pods, or one pod with a
// trouble of its own.
type Wait struct {
	Node, Cause, Remedy string
	Pods                int
	Since               time.Time
	// Until is when the cloud that drains the node gives up on it, zero where none does.
	Until time.Time
	// Lasting is true for what a person has to end, and for what has lasted beyond patience.
	Lasting bool
	// key is the same for the same wait at another moment, though the numbers in its cause differ.
	key string
}

// CollectWaits gathers the blocked pods of each node by what they wait for, in order of the first
// of them.
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
			waits = append(waits, Wait{key: key, Node: b.Node, Cause: b.String(), Remedy: b.Remedy(), Since: b.Since, Until: b.Until})
		}
		w := &waits[i]
		w.Pods++
		if b.Since.Before(w.Since) {
			w.Since = b.Since
		}
		w.Lasting = w.Lasting || b.Structural() || now.Sub(b.Since) >= reportDelay
	}
	return waits
}

// String says the wait in one line, remedy included.
func (w Wait) String() string {
	text := w.Cause
	if w.Pods > 1 {
		text += fmt.Sprintf(" and %s more", formatCount(w.Pods-1, "pod"))
	}
	return text + ": " + w.Remedy
}

// formatLimit is how long the cloud that drains the node tries, "" where none does.
func (w Wait) formatLimit(manager string, now time.Time) string {
	if w.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (%s gives up in %s)", manager, duration.HumanDuration(max(0, w.Until.Sub(now))))
}

// formatDuration is how long it has lasted, in kubectl's short form.
func (w Wait) formatDuration(now time.Time) string {
	if d := now.Sub(w.Since); d >= time.Second {
		return ", for " + duration.HumanDuration(d)
	}
	return ""
}
