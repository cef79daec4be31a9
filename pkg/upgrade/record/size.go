package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// MostRecordBytes is how large the record may become, encoded as JSON. It is a ConfigMap, whose data has at most 1 MiB (Kubernetes,
	// pkg/apis/core/validation, MaxSecretSize); the rest is for texts of errors, and for what else the ConfigMap has.
	MostRecordBytes = 1<<20 - 64<<10
	// spareBytes is what CheckRecordSize leaves for what it does not see: DaemonSets, and nodes that join during the upgrade.
	spareBytes = 64 << 10
	// MostReasonBytes is how long NodeRecord.Reason may be.
	MostReasonBytes = 300
	// nodeBytes is what a NodeRecord has at most beside its name, its texts and its lists.
	nodeBytes = 440
	// goneBytes is the same of a GoneNode.
	goneBytes = len(`{"name":,"zone":,"began":"2006-01-02T15:04:05+00:00","emptyAt":"2006-01-02T15:04:05+00:00","terminated":"2006-01-02T15:04:05+00:00","gone":"2006-01-02T15:04:05+00:00"},`)
	// WorkloadBytes is the same of a WorkloadRecord.
	WorkloadBytes = 260
)

// CheckRecordSize returns an error if the record of the upgrade could become larger than a ConfigMap may be, whatever happens to the
// members. It asks before anything is touched: a record that cannot be written would end the upgrade in the middle of a drain.
func (r *Request) CheckRecordSize(group *nodegroup.Group, members []nodegroup.Member) error {
	if !r.Strategy.Traits().Drains {
		return nil // which start no node
	}
	rest, outdated := Record{Request: *r}, []*nodegroup.Member{}
	for i := range members {
		if m := &members[i]; m.Outdated {
			outdated = append(outdated, m)
		} else { // the books know it by name, too
			rest.Unlabelled = append(rest.Unlabelled, m.Name(), m.Instance.ID)
		}
	}
	busy := max(r.Window, MostDeleted)
	podsInDrain := sumOfLargest(measureAll(outdated, func(m *nodegroup.Member) int { return len(m.Pods) }), busy)
	workloads := slices.Collect(maps.Values(SizeOfWorkloads(outdated)))
	nodes := measureAll(outdated, r.MemberBytes)
	// Of workloads mostWorkloads are kept, and those that have not recovered.
	size := EncodedBytes(rest) + sumOfLargest(measureAll(outdated, DrainBytes), busy) + sumOfLargest(workloads, mostWorkloads+podsInDrain)
	if r.keepsNodes(group) { // a node that went takes less than it did before
		size += sumOfLargest(nodes, len(nodes))
	} else { // new nodes that are given back are on record, too, and the last nodes that went
		gone := measureAll(outdated, func(m *nodegroup.Member) int { return goneBytes + TextBytes(m.Name()) + TextBytes(m.Zone()) })
		size += sumOfLargest(nodes, busy) + r.Surge*sumOfLargest(nodes, 1) + sumOfLargest(gone, MostGone)
	}
	if size <= MostRecordBytes-spareBytes {
		return nil
	}
	remedy := "pass a smaller --max-unavailable or --max-surge"
	switch {
	case !group.Can.Terminate:
		remedy = "name fewer nodes with -l"
	case r.keepsNodes(group):
		remedy = fmt.Sprintf("use --strategy=%s with another --on-timeout than %s", Surge, Skip)
	}
	return fmt.Errorf("recording an upgrade of %d nodes: the record may take %d KiB, but a ConfigMap holds only %d KiB of it: %s", len(outdated), size>>10, (MostRecordBytes-spareBytes)>>10, remedy)
}

// keepsNodes reports whether nodes may stay on record until the end: those that blue-green keeps, those that are set aside, and those that
// their owner or an autoscaler removes.
func (r *Request) keepsNodes(group *nodegroup.Group) bool {
	return r.Strategy.Traits().KeepsNodes || r.OnTimeout == Skip || !group.Can.Terminate
}

// MemberBytes returns how much the member takes of the record at most, without what drainBytes counts.
func (r *Request) MemberBytes(m *nodegroup.Member) int {
	n := NodeRecord{Instance: m.Instance.ID, Zone: m.Zone()}
	if m.Node != nil {
		n.UID = m.Node.UID
	}
	return n.FixedBytes(m.Name(), r.ReasonBytes())
}

// ReasonBytes returns how much NodeRecord.Reason takes at most: an upgrade that fails at the first node that is not empty in time has none.
func (r *Request) ReasonBytes() int {
	if r.OnTimeout == Fail && r.BlueGreen == nil {
		return 0
	}
	return MostReasonBytes
}

// FixedBytes returns how much the node takes of the record at most, without its lists and with so many bytes for the reason.
func (n NodeRecord) FixedBytes(name string, reason int) int {
	size := nodeBytes + max(reason, TextBytes(n.Reason))
	for _, text := range []string{name, string(n.UID), n.Instance, n.Zone} {
		size += TextBytes(text)
	}
	return size
}

// ListBytes returns how much the lists of the node take.
func (n NodeRecord) ListBytes() int {
	size := 0
	for pod := range n.Blocked {
		size += blockedBytes(pod)
	}
	for _, address := range n.Addresses {
		size += TextBytes(address)
	}
	return size
}

// DrainBytes returns how much the lists of a node in drain take at most: the pods that are blocked, and the addresses of all.
func DrainBytes(m *nodegroup.Member) int {
	blocked, addresses := make([]int, 0, len(m.Pods)), 0
	for _, pod := range m.Pods {
		blocked = append(blocked, blockedBytes(pod.Namespace+"/"+pod.Name))
		addresses += TextBytes(pod.Status.PodIP)
	}
	return addresses + sumOfLargest(blocked, MostBlocked)
}

// blockedBytes returns how much one pod takes in NodeRecord.Blocked: its name and a time.
func blockedBytes(pod string) int {
	return TextBytes(pod) + len(`"2006-01-02T15:04:05.999999999+00:00",`)
}

// SizeOfWorkloads returns how much the workloads of the members take at most, by name.
func SizeOfWorkloads(members []*nodegroup.Member) map[string]int {
	sizes, longest := map[string]int{}, 0
	for _, m := range members {
		longest = max(longest, TextBytes(m.Name())) // which may be a canary
	}
	for _, m := range members {
		for _, pod := range m.Pods {
			name := drain.WorkloadOf(pod).String()
			sizes[name] = WorkloadBytes + TextBytes(name) + longest
		}
	}
	return sizes
}

// sumOfLargest sums the largest of the numbers, of so many.
func sumOfLargest(numbers []int, count int) int {
	slices.SortFunc(numbers, func(a, b int) int { return cmp.Compare(b, a) })
	total := 0
	for _, n := range numbers[:min(len(numbers), count)] {
		total += n
	}
	return total
}

// measureAll applies a measure to each of the members.
func measureAll(members []*nodegroup.Member, measure func(*nodegroup.Member) int) []int {
	numbers := make([]int, 0, len(members))
	for _, m := range members {
		numbers = append(numbers, measure(m))
	}
	return numbers
}

// EncodedBytes returns the size of the record as it is stored.
func EncodedBytes(r Record) int {
	text, err := json.Marshal(r)
	if err != nil {
		return MostRecordBytes // what cannot be encoded has no room
	}
	return len(text)
}

// TextBytes returns how much a text takes in JSON at most, with its quotes and a comma.
func TextBytes(text string) int {
	size := len(`"",`)
	for _, r := range text {
		switch r {
		case '"', '\\', '<', '>', '&', '\u2028', '\u2029', utf8.RuneError:
			size += len(`\u0000`)
		default:
			if size += utf8.RuneLen(r); r < ' ' {
				size += len(`\u0000`)
			}
		}
	}
	return size
}

// ShortenReason cuts a text off so that it fits into NodeRecord.Reason.
func ShortenReason(text string) string {
	if TextBytes(text) <= MostReasonBytes {
		return text
	}
	const more = "…"
	for TextBytes(text+more) > MostReasonBytes {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
	}
	return text + more
}

const (
	// LongBlocked is how long a pod has to be blocked for the record to tell since when.
	LongBlocked = time.Minute
	// MostBlocked is how many pods of a node the record names for that; it counts the others.
	MostBlocked = 5
	// MostUnhealthy is how many workloads the record names that have not recovered for as long.
	MostUnhealthy = 20
	// MostBlockedOfGroup is how many pods the record names of a group that its own cloud upgrades.
	MostBlockedOfGroup = 20
)

// MostDeleted is how many outdated nodes are deleted at once: as many as GKE upgrades at once.
const MostDeleted = MaxSurgeWindow
