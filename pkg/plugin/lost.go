package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// rebuild takes up a run whose record is gone from the marks that it left on the group's nodes, and
// refuses where they do not tell what it added to the group: a second surge could come on top of
// the first.
func (o *options) rebuild(p *prospect) error {
	world := p.world(p.now)
	record, err := upgrade.Rebuild(world)
	if err != nil {
		return &exitErr{code: exitError, err: fmt.Errorf(
			"taking up run %s of group %q, whose record (ConfigMap %s in namespace %s) is gone: %w: kubectl nodeupgrade status %s lists its marks with the commands "+
				"that take them away; give the group the size and the processes that it is to have, and run %s to begin again",
			record.Run, p.group.Name, cluster.ObjectName(p.group.Name), o.stateSpace, err, p.group.Name, o.again)}
	}
	p.record = record
	return nil
}

// lossText says what an upgrade goes on with whose record was lost, and what is not known any more.
func lossText(record *upgrade.Record) string {
	text := fmt.Sprintf("the record of run %s is gone and is rebuilt from the marks on the group's nodes", record.Run)
	if names := slices.Sorted(maps.Keys(record.Nodes)); len(names) > 0 {
		text += "; in drain: " + strings.Join(names, ", ")
	}
	if record.Sizes.Desired == 0 {
		return text
	}
	return text + fmt.Sprintf("; the group had %d nodes and a max of %d before it: what is there beyond that counts as the run's, since what others changed "+
		"meanwhile is not known any more, nor which nodes were given up", record.Sizes.Desired, record.Sizes.Max)
}
