package upgrade

import "reflect"

// mustStoreRecord reports whether the record departs from the stored one in anything that must be
// on record before the actions of the step are begun. What a later look at the cluster and the
// cloud shows again by itself is written with the next change that does.
func mustStoreRecord(stored, record *Record) bool {
	return record.Run != "" && !reflect.DeepEqual(stored.withoutObserved(), record.withoutObserved())
}

// withoutObserved is the record without what a later look shows again: that a node is empty, that a
// machine is on its way out, how many nodes are outdated, and how old a reading of the group may
// be; and without how workloads fare, which is stored with the start of a node and at the end.
func (r *Record) withoutObserved() Record {
	c := *r
	c.Total, c.Workloads = 0, nil
	c.Ledger = r.Ledger.WithoutObserved()
	c.Nodes = make(map[string]NodeRecord, len(r.Nodes))
	for name, n := range r.Nodes {
		if n.State == NodeEmpty {
			n.State = NodeDraining
		}
		n.EmptyAt, n.Landed = r.Started, false
		c.Nodes[name] = n
	}
	return c
}
