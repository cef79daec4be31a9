// Package record holds what is known of an upgrade without deciding anything: what was asked for
// (Request, and Asked by another process), what is stored so that another process can continue
// (Record, with a NodeRecord for each node that was started), and what people are told (Status).
//
// A record is written before the actions that rest on it. Others can write it too: a decision about a
// machine rests on what was observed. Fields keep their JSON names for ever, since records of older
// programs are continued; a strategy that older programs do not know has a higher RecordVersion.
//
// Who only stores, shows or asks needs this package and not the state machine above it, package upgrade.
package record
