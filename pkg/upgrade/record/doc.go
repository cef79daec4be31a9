// Package record contains the data of an upgrade, without decisions: what was asked for (Request, and Asked by another
// process), what is stored so that another process can continue (Record, with a NodeRecord for each started node), and
// what users see (Status).
//
// A record is written before the actions that depend on it. Other programs can write it too, so decisions about a
// machine depend on what was observed. Fields keep their JSON names forever, because this program continues records of
// older programs. A strategy that older programs do not know has a higher RecordVersion.
//
// Code that only stores, shows or requests needs this package and not package upgrade, the state machine above it.
package record
