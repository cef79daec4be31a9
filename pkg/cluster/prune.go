package cluster

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// prunedFields names fields of an encoded object that package trim would drop, by number: a field
// without fields of its own is dropped, one with it is a message of which the same is done. Most
// of a pod is such fields, and what is not decoded is no garbage either.
type prunedFields map[protowire.Number]prunedFields

// prunedFieldsOf returns what is dropped of the objects of a resource that are read for a use.
func prunedFieldsOf(resource string, use inventory.Use) prunedFields {
	checked := use == inventory.ForChecks
	switch resource {
	case "pods":
		if checked {
			return prunedCheckedPodFields()
		}
		return prunedPodFields()
	case "deployments", "replicasets", "statefulsets":
		if checked { // their pods show what is in the template, which forecasts look at
			return prunedTemplateFields()
		}
	}
	return prunedMetadata()
}

// prunedMetadata is what is dropped of any object, and prunedPodFields what is dropped of a pod
// (k8s.io/api/core/v1/generated.proto): of its metadata the managed fields; of each container
// image, command, environment, mounts, probes and messages; of what its status says of containers
// all but what they wait for and what they were given.
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

// prunedCheckedPodFields is what is dropped of a pod whose probes, ports and container statuses are
// looked at, as trim.ForChecks drops it.
func prunedCheckedPodFields() prunedFields {
	container := prunedFields{2: nil, 3: nil, 4: nil, 7: nil, 9: nil, 13: nil, 14: nil, 19: nil, 20: nil, 21: nil}
	status := prunedFields{3: nil, 6: nil, 7: nil, 8: nil, 9: nil, 10: nil, 11: nil, 12: nil, 13: nil}
	return prunedFields{
		1: {17: nil},
		2: {2: container, 20: container},
		3: {8: status, 10: status, 13: nil},
	}
}

// prunedTemplateFields is what is dropped of a controller: its managed fields, and what its pods
// look like.
func prunedTemplateFields() prunedFields { return prunedFields{1: {17: nil}, 2: {3: {2: nil}}} }

// lengthBytes is the room for the length of a message, which is written when it is known: a varint
// may be longer than it has to be.
const lengthBytes = 5

// appendPruned appends the message to another without the fields. What is no message is appended as
// it is: who decodes it has something to say about it.
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

// appendPrunedField does it with a field that is a message.
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
