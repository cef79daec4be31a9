package record_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/ledger"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestOnlyUnfinishedUpgradesAreResumable(t *testing.T) {
	cases := map[string]struct {
		record             record.Record
		running, resumable bool
	}{
		"none":                 {record.Record{}, false, false},
		"under way":            {record.Record{Run: "r1"}, true, true},
		"interrupted":          {record.Record{Run: "r1", Result: record.Interrupted}, false, true},
		"paused":               {record.Record{Run: "r1", Result: record.Paused}, false, true},
		"target moved":         {record.Record{Run: "r1", Result: record.TargetMoved}, false, true},
		"E42 eviction failure": {record.Record{Run: "r1", Result: record.PodEvictionFailure}, false, true},
		"E33 creation failure": {record.Record{Run: "r1", Result: record.NodeCreationFailure}, false, true},
		"failed":               {record.Record{Run: "r1", Result: record.Failed}, false, true},
		"succeeded":            {record.Record{Run: "r1", Result: record.Succeeded}, false, false},
		"left behind":          {record.Record{Run: "r1", Result: record.LeftBehind}, false, false},
		"stopped before it":    {record.Record{Result: record.Interrupted}, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.record.IsRunning(); got != c.running {
				t.Errorf("running %t, want %t", got, c.running)
			}
			if got := c.record.IsResumable(); got != c.resumable {
				t.Errorf("resumable %t, want %t", got, c.resumable)
			}
		})
	}
}

// I8: a stop adds no time to a node's drain timeout, unless the timeout was why it stopped.
func TestReopenedRecordKeepsDrainDeadlines(t *testing.T) {
	deadline := start.Add(15 * time.Minute)
	nodes := map[string]record.NodeRecord{
		"draining": {State: record.NodeDraining, Deadline: deadline}, "forcing": {State: record.NodeForcing, Deadline: deadline},
		"empty": {State: record.NodeEmpty, Deadline: deadline}, "removing": {State: record.NodeRemoving, Deadline: deadline},
	}
	cases := map[string]struct {
		record record.Record
		anew   bool
	}{
		"interrupted":              {record.Record{Result: record.Interrupted, Message: "m", Ended: start}, false},
		"crashed while stopping":   {record.Record{Stopping: record.Interrupted}, false},
		"out of time":              {record.Record{Result: record.PodEvictionFailure, Message: "m", Ended: start}, true},
		"crashed when out of time": {record.Record{Stopping: record.PodEvictionFailure, Message: "m"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.record.Run, c.record.Phase, c.record.Nodes = "r1", record.PhaseUpgrade, nodes
			got := c.record.Reopened()
			if !got.IsRunning() || got.Stopping != "" || got.Message != "" || !got.Ended.IsZero() || got.Phase != record.PhaseUpgrade {
				t.Errorf("it is not under way in its phase: %+v", got)
			}
			for _, name := range []string{"draining", "forcing"} {
				if anew := got.Nodes[name].Deadline.IsZero(); anew != c.anew {
					t.Errorf("node %s has a new drain timeout: %t, want %t", name, anew, c.anew)
				}
			}
			if !reflect.DeepEqual(got.Nodes["removing"], nodes["removing"]) || !reflect.DeepEqual(got.Nodes["empty"], nodes["empty"]) {
				t.Errorf("nodes past their drain changed: %+v", got.Nodes)
			}
			if forcing := got.Nodes["forcing"].State == record.NodeForcing; forcing == c.anew {
				t.Errorf("a node with a new drain timeout is forced: %t", forcing)
			}
		})
	}
	t.Run("a crash is no stop", func(t *testing.T) {
		record := record.Record{Run: "r1", Phase: record.PhaseScaleUp, PhaseBegan: start}
		if got := record.Reopened(); !got.PhaseBegan.Equal(start) {
			t.Errorf("the phase began at %s, want %s", got.PhaseBegan, start)
		}
	})
}

func TestChangesOfClonedRecordDoNotChangeOriginal(t *testing.T) {
	rec := record.Record{
		Nodes: map[string]record.NodeRecord{"old-a-1": {State: record.NodeDraining}}, Suspended: []string{"AZRebalance"},
		Ledger: ledger.FromBooks(ledger.Books{Zones: map[string]ledger.Zone{"a": {Open: []ledger.Launch{{Serial: 1}}}}}),
	}
	text, err := json.Marshal(rec)
	var before record.Record
	if err = cmp.Or(err, json.Unmarshal(text, &before)); err != nil {
		t.Fatal(err)
	}
	clone := rec.Clone()
	clone.Nodes["old-a-1"] = record.NodeRecord{}
	clone.Suspended[0] = ""
	clone.Ledger.BookReturn("a", start)
	if !reflect.DeepEqual(rec, before) {
		t.Errorf("the record became %+v", rec)
	}
}

// TestRecordKeepsOnlyLastGoneNodes: the last nodes that are gone are kept, and clones of the record are not changed.
func TestRecordKeepsOnlyLastGoneNodes(t *testing.T) {
	rec := record.Record{Nodes: map[string]record.NodeRecord{}}
	var shared, before []record.GoneNode
	for i := range record.MostGone + 3 {
		name := fmt.Sprintf("n-%03d", i)
		rec.Nodes[name] = record.NodeRecord{Zone: "a", State: record.NodeRemoving, Began: start, Terminated: start.Add(90 * time.Second)}
		rec.NoteGone(name, start.Add(2*time.Minute+time.Duration(i)))
		if i == record.MostGone {
			shared, before = rec.Gone, slices.Clone(rec.Gone)
		}
	}
	if n := len(rec.Gone); n != record.MostGone || rec.Gone[0].Name != "n-003" || rec.Gone[n-1].Name != fmt.Sprintf("n-%03d", record.MostGone+2) {
		t.Errorf("%d are kept, from %s to %s", n, rec.Gone[0].Name, rec.Gone[n-1].Name)
	}
	want := record.GoneNode{Name: "n-003", Zone: "a", Began: start, Terminated: start.Add(90 * time.Second), Gone: start.Add(2 * time.Minute)}
	if rec.Gone[0] != want {
		t.Errorf("got %+v, want %+v", rec.Gone[0], want)
	}
	if !slices.Equal(shared, before) {
		t.Error("an earlier record was changed")
	}
}

func TestDurationIsReadAndWrittenAsText(t *testing.T) {
	var d record.Duration
	if err := d.UnmarshalText([]byte("15m")); err != nil || d.Duration != 15*time.Minute {
		t.Errorf("got %s, %v", d, err)
	}
	if text, err := d.MarshalText(); err != nil || string(text) != "15m0s" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := d.UnmarshalText([]byte("soon")); err == nil || !strings.Contains(err.Error(), `reading duration "soon"`) {
		t.Errorf("got %v", err)
	}
}

// TestReopenedRecordForgetsOnlyHowItEnded: a record that continues forgets only what ended it. It also keeps fields that are added to
// Record later.
func TestReopenedRecordForgetsOnlyHowItEnded(t *testing.T) {
	full := record.Record{}
	for i, fields := 0, reflect.ValueOf(&full).Elem(); i < fields.NumField(); i++ {
		fillField(t, fields.Type().Field(i).Name, fields.Field(i))
	}
	again := full.Reopened()
	forgotten := map[string]bool{"PhaseBegan": true, "Stopping": true, "PausedBy": true, "Unhealthy": true, "Result": true, "Message": true, "Ended": true}
	for i, fields := 0, reflect.ValueOf(again); i < fields.NumField(); i++ {
		name := fields.Type().Field(i).Name
		if fields.Field(i).IsZero() != forgotten[name] {
			t.Errorf("%s is %v", name, fields.Field(i))
		}
	}
}

// fillField sets a field of a record to a non-zero value.
func fillField(t *testing.T, name string, field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString(string(record.Interrupted))
	case reflect.Int:
		field.SetInt(1)
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.ValueOf("a"), reflect.Zero(field.Type().Elem()))
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Struct:
		switch value := field.Addr().Interface().(type) {
		case *time.Time:
			*value = start
		case *ledger.Ledger:
			*value = ledger.FromBooks(ledger.Books{Zonal: true})
		default:
			fillField(t, name, field.Field(0))
		}
	default:
		t.Fatalf("%s: no value for a %s", name, field.Kind())
	}
}
