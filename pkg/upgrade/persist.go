package upgrade

import (
	"maps"
	"reflect"
	"time"
)

// mustStoreRecord reports whether the record departs from the stored one in anything that must be
// on record before the actions of the step are begun. What a later look at the cluster and the
// cloud shows again by itself is written with the next change that does.
func mustStoreRecord(stored, record *Record) bool {
	return record.Run != "" && (!maps.EqualFunc(stored.Nodes, record.Nodes, isStoredNode) ||
		!reflect.DeepEqual(stored.withoutObserved(), record.withoutObserved()))
}

func isStoredNode(stored, n NodeRecord) bool {
	return reflect.DeepEqual(stored.withoutObserved(), n.withoutObserved())
}

// withoutObserved is the node without what a later look shows again: that it is empty, and that its
// machine is on its way out.
func (n NodeRecord) withoutObserved() NodeRecord {
	if n.State == NodeEmpty {
		n.State = NodeDraining
	}
	n.EmptyAt, n.Landed = time.Time{}, false
	return n
}

// withoutObserved is the record without its nodes and without what a later look shows again: how
// many nodes are outdated, and how old a reading of the group may be; and without how workloads
// fare, which is stored with the start of a node and at the end.
func (r *Record) withoutObserved() Record {
	c := *r
	c.Total, c.Nodes = 0, nil
	if c.Result == "" {
		c.Workloads = nil
	}
	c.Ledger = r.Ledger.WithoutObserved()
	return c
}
