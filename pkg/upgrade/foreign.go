package upgrade

import (
	"maps"
	"slices"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// ForeignRun is a run of another upgrade that a node of the group is part of.
type ForeignRun struct {
	Node, Run string
	// Owner names the other upgrade.
	Owner nodemark.Owner
}

// FindForeignRun returns the first run of another upgrade that marks one of the members, in their
// order: of a group of another name, or of this one in another namespace. own is the group's name and
// namespace, run the one that is recorded for it, "" for none. Marks of older versions name no owner:
// they are of the record that can be continued with their run. records are those of own's namespace
// under other names. It returns false when no mark is foreign.
func FindForeignRun(members []nodegroup.Member, own nodemark.Owner, run string, records map[string]Record) (ForeignRun, bool) {
	for i := range members {
		node := members[i].Node
		if node == nil {
			continue
		}
		marked := nodemark.RunOf(node)
		if marked == "" || marked == run {
			continue
		}
		owner, named := nodemark.ReadOwner(node)
		if !named {
			owner = nodemark.Owner{Namespace: own.Namespace, Group: findRecorded(marked, own.Group, records)}
		}
		if owner.Namespace != own.Namespace || owner.Group != own.Group {
			return ForeignRun{Node: node.Name, Run: marked, Owner: owner}, true
		}
	}
	return ForeignRun{}, false
}

// findRecorded returns the group whose record can be continued with the run; otherwise, when there is
// none.
func findRecorded(run, otherwise string, records map[string]Record) string {
	for _, group := range slices.Sorted(maps.Keys(records)) {
		if record := records[group]; record.Run == run && record.IsResumable() {
			return group
		}
	}
	return otherwise
}
