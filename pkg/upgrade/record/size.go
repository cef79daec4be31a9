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
	// MostRecordBytes is how large the record may become, encoded as JSON. It is stored in a ConfigMap, whose data has
	// at most 1 MiB (Kubernetes, pkg/apis/core/validation, MaxSecretSize). The rest is for error texts, and for the
	// other parts of the ConfigMap.
	MostRecordBytes = 1<<20 - 64<<10
	// spareBytes is what CheckRecordSize reserves for what it cannot see: DaemonSets, and nodes that join during the
	// upgrade.
	spareBytes = 64 << 10
	// MostReasonBytes is how long NodeRecord.Reason may be.
	MostReasonBytes = 300
	// nodeBytes is the largest size of a NodeRecord without its name, its texts and its lists.
	nodeBytes = 440
	// goneBytes is the largest size of a GoneNode without its name and its zone.
	goneBytes = len(`{"name":,"zone":,"began":"2006-01-02T15:04:05+00:00","emptyAt":"2006-01-02T15:04:05+00:00","terminated":"2006-01-02T15:04:05+00:00","gone":"2006-01-02T15:04:05+00:00"},`)
	// WorkloadBytes is the largest size of a WorkloadRecord without the names of the workload and its canary.
	WorkloadBytes = 260
)

// CheckRecordSize returns an error if the record of the upgrade could become larger than a ConfigMap may be, whatever
// happens to the members. It is checked before anything changes: a record that cannot be stored would stop the upgrade
// in the middle of a drain.
func (r *Request) CheckRecordSize(group *nodegroup.Group, members []nodegroup.Member) error {
	if !r.Strategy.Traits().Drains {
		return nil // the strategy starts no node
	}
	rest, outdated := Record{Request: *r}, []*nodegroup.Member{}
	for i := range members {
		if m := &members[i]; m.Outdated {
			outdated = append(outdated, m)
		} else { // the ledger contains its name, too
			rest.Unlabelled = append(rest.Unlabelled, m.Name(), m.Instance.ID)
		}
	}
	busy := max(r.Window, MostDeleted)
	podsInDrain := sumOfLargest(measureAll(outdated, func(m *nodegroup.Member) int { return len(m.Pods) }), busy)
	workloads := slices.Collect(maps.Values(SizeOfWorkloads(outdated)))
	nodes := measureAll(outdated, r.MemberBytes)
	// The record keeps maxWorkloads workloads, and those that have not recovered.
	size := EncodedBytes(rest) + sumOfLargest(measureAll(outdated, DrainBytes), busy) + sumOfLargest(workloads, maxWorkloads+podsInDrain)
	if r.keepsNodes(group) { // a node takes less once it is gone
		size += sumOfLargest(nodes, len(nodes))
	} else { // the record also has new nodes that are given back, and the last nodes that are gone
		gone := measureAll(outdated, func(m *nodegroup.Member) int { return goneBytes + TextBytes(m.Name()) + TextBytes(m.Zone()) })
		size += sumOfLargest(nodes, busy) + r.Surge*sumOfLargest(nodes, 1) + sumOfLargest(gone, MostGone)
	}
	if size <= MostRecordBytes-spareBytes {
		return nil
	}
	remedy := "pass a smaller --max-unavailable or --max-surge"
	switch {
	case !group.Can.Terminate:
		remedy = "select fewer nodes with -l"
	case r.keepsNodes(group):
		remedy = fmt.Sprintf("use --strategy=%s with another --on-timeout than %s", Surge, Skip)
	}
	return fmt.Errorf("recording an upgrade of %d nodes: the record may need %d KiB, but a ConfigMap has room for only %d KiB: %s", len(outdated), size>>10, (MostRecordBytes-spareBytes)>>10, remedy)
}

// keepsNodes reports whether nodes may stay on record until the end: nodes that blue-green keeps, quarantined nodes,
// and nodes that their owner or an autoscaler removes.
func (r *Request) keepsNodes(group *nodegroup.Group) bool {
	return r.Strategy.Traits().KeepsNodes || r.OnTimeout == Skip || !group.Can.Terminate
}

// MemberBytes returns the largest size of the member in the record, without the lists that DrainBytes counts.
func (r *Request) MemberBytes(m *nodegroup.Member) int {
	n := NodeRecord{Instance: m.Instance.ID, Zone: m.Zone()}
	if m.Node != nil {
		n.UID = m.Node.UID
	}
	return n.FixedBytes(m.Name(), r.ReasonBytes())
}

// ReasonBytes returns the largest size of NodeRecord.Reason. It is 0 if the upgrade fails at the first node that is not
// empty in time.
func (r *Request) ReasonBytes() int {
	if r.OnTimeout == Fail && r.BlueGreen == nil {
		return 0
	}
	return MostReasonBytes
}

// FixedBytes returns the largest size of the node in the record, without its lists and with reason bytes for the
// reason.
func (n NodeRecord) FixedBytes(name string, reason int) int {
	size := nodeBytes + max(reason, TextBytes(n.Reason))
	for _, text := range []string{name, string(n.UID), n.Instance, n.Zone} {
		size += TextBytes(text)
	}
	return size
}

// ListBytes returns the size of the node's lists.
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

// DrainBytes returns the largest size of the lists of a node in drain: the blocked pods, and the addresses of all pods.
func DrainBytes(m *nodegroup.Member) int {
	blocked, addresses := make([]int, 0, len(m.Pods)), 0
	for _, pod := range m.Pods {
		blocked = append(blocked, blockedBytes(pod.Namespace+"/"+pod.Name))
		addresses += TextBytes(pod.Status.PodIP)
	}
	return addresses + sumOfLargest(blocked, MostBlocked)
}

// blockedBytes returns the size of one pod in NodeRecord.Blocked: its name and a time.
func blockedBytes(pod string) int {
	return TextBytes(pod) + len(`"2006-01-02T15:04:05.999999999+00:00",`)
}

// SizeOfWorkloads returns the largest size of each workload of the members, by name.
func SizeOfWorkloads(members []*nodegroup.Member) map[string]int {
	sizes, longest := map[string]int{}, 0
	for _, m := range members {
		longest = max(longest, TextBytes(m.Name())) // the node may be the workload's canary
	}
	for _, m := range members {
		for _, pod := range m.Pods {
			name := drain.WorkloadOf(pod).String()
			sizes[name] = WorkloadBytes + TextBytes(name) + longest
		}
	}
	return sizes
}

// sumOfLargest returns the sum of the largest count numbers.
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
		return MostRecordBytes // a record that cannot be encoded has no room
	}
	return len(text)
}

// TextBytes returns the largest size of a text in JSON, with its quotes and a comma.
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
	// LongBlocked is how long a pod must be blocked before the record names it.
	LongBlocked = time.Minute
	// MostBlocked is how many blocked pods of a node the record names; it counts the others.
	MostBlocked = 5
	// MostUnhealthy is the largest number of unhealthy workloads that the record names.
	MostUnhealthy = 20
	// MostBlockedOfGroup is how many blocked pods the record names of a group that its own cloud upgrades.
	MostBlockedOfGroup = 20
)

// MostDeleted is how many outdated nodes are deleted at once: as many as GKE upgrades at once.
const MostDeleted = MaxSurgeWindow
