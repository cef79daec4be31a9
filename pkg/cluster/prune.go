package cluster

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// prunedFields lists the fields of an encoded object that package trim would drop, by number. A nil
// entry drops the whole field. Any other entry lists the fields to drop within it. These fields
// are most of a pod, and fields that are never decoded need no garbage collection.
type prunedFields map[protowire.Number]prunedFields

// prunedFieldsOf returns the fields to drop from a resource's objects when they are read for a use.
func prunedFieldsOf(resource string, use inventory.Use) prunedFields {
	checked := use == inventory.ForChecks
	switch resource {
	case "pods":
		if checked {
			return prunedCheckedPodFields()
		}
		return prunedPodFields()
	case "deployments", "replicasets", "statefulsets":
		if checked { // forecasts look at the template; for checks the pods show the same
			return prunedTemplateFields()
		}
	}
	return prunedMetadata()
}

// prunedMetadata are the fields to drop from any object: the managed fields. prunedPodFields are
// the fields to drop from a pod (k8s.io/api/core/v1/generated.proto): its managed fields; of each
// container image, command, environment, mounts, probes and messages; of each container status
// everything except name, waiting reason, restart count and resources.
func prunedMetadata() prunedFields { return prunedFields{1: {17: nil}} }

func prunedPodFields() prunedFields {
	state := prunedFields{1: {2: nil}, 2: nil, 3: nil}
	container := prunedFields{2: state, 3: nil, 4: nil, 6: nil, 7: nil, 8: nil, 9: nil, 12: nil, 13: nil, 14: nil, 15: nil}
	return prunedFields{
		1: {17: nil},
		2: {2: {2: nil, 3: nil, 4: nil, 7: nil, 9: nil, 10: nil, 11: nil, 13: nil, 14: nil, 15: nil, 19: nil, 20: nil, 22: nil}},
		3: {8: container, 10: container, 13: nil},
	}
}

// prunedCheckedPodFields are the fields to drop from a pod whose probes, ports and container
// statuses are needed. trim.ForChecks drops the same fields.
func prunedCheckedPodFields() prunedFields {
	container := prunedFields{2: nil, 3: nil, 4: nil, 7: nil, 9: nil, 13: nil, 14: nil, 19: nil, 20: nil, 21: nil}
	status := prunedFields{3: nil, 6: nil, 7: nil, 8: nil, 9: nil, 10: nil, 11: nil, 12: nil, 13: nil}
	return prunedFields{
		1: {17: nil},
		2: {2: container, 20: container},
		3: {8: status, 10: status, 13: nil},
	}
}

// prunedTemplateFields are the fields to drop from a controller: its managed fields, and the spec
// of its pod template.
func prunedTemplateFields() prunedFields { return prunedFields{1: {17: nil}, 2: {3: {2: nil}}} }

// lengthBytes is the space for the length of a message, which is known only after its fields were
// written. A varint may be longer than needed.
const lengthBytes = 5

// appendPruned appends the message without the fields. Bytes that are not a valid message are
// appended unchanged, and their decoder returns the error.
func (p prunedFields) appendPruned(to, message []byte) []byte {
	for len(message) > 0 {
		number, _, n := protowire.ConsumeField(message)
		if n < 0 {
			return append(to, message...)
		}
		field := message[:n]
		message = message[n:]
		fields, known := p[number]
		switch {
		case !known:
			to = append(to, field...)
		case fields != nil:
			to = fields.appendPrunedField(to, field)
		}
	}
	return to
}

// appendPrunedField appends a field that is a message, without the fields to drop.
func (p prunedFields) appendPrunedField(to, field []byte) []byte {
	_, kind, tag := protowire.ConsumeTag(field)
	message, n := protowire.ConsumeBytes(field[tag:])
	if kind != protowire.BytesType || n < 0 {
		return append(to, field...)
	}
	to = append(to, field[:tag]...)
	at := len(to)
	to = p.appendPruned(append(to, make([]byte, lengthBytes)...), message)
	size := len(to) - at - lengthBytes
	for i := range lengthBytes {
		to[at+i] = byte(size>>(7*i))&0x7f | 0x80
	}
	to[at+lengthBytes-1] &= 0x7f
	return to
}
