package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// followedGroups is a list of groups that is shown again after each change.
type followedGroups struct {
	*command
	screen listScreen
	// watcher is nil if the user may not watch. The cluster is then read whenever the cloud is.
	watcher *cluster.GroupsWatcher
	// found are the groups, which were read from the cloud at observed. If stale is true, they must be read again.
	found    foundGroups
	observed time.Time
	stale    bool
	// nodes, records and unreadable are the cluster's state. If changed is true, they are taken from the watcher again.
	changed    bool
	nodes      []*corev1.Node
	records    map[string]record.Record
	unreadable map[string]error
}

// watchGroups shows the list of groups until the context ends. The first list needs an answer from the cloud. Later
// lists use the last answer until there is a new one.
func watchGroups(ctx context.Context, c *command) error {
	f := &followedGroups{command: c, screen: newListScreen(c.line.console), stale: true, changed: true}
	var err error
	f.watcher, err = cluster.WatchGroups(ctx, c.conn.Client, c.line.stateNamespace)
	if err != nil && !apierrors.IsForbidden(err) {
		return explainReadError(err)
	}
	cloudTick := time.NewTicker(cloudInterval)
	defer cloudTick.Stop()
	for {
		warning, err := f.readChanges(ctx)
		if err != nil {
			return err
		}
		all := f.makeGroupList(&f.found, f.nodes, f.records)
		all.markUnknownPhases(func(group string) bool { return f.unreadable[group] != nil })
		for _, text := range slices.Concat(describeUnreadableRecords(f.unreadable), slices.DeleteFunc([]string{f.found.warning, warning}, func(s string) bool { return s == "" })) {
			all.hints = append(all.hints, "warning: "+text)
		}
		if err := f.screen.showChange(all); err != nil {
			return err
		}
		if !f.waitForChange(ctx, cloudTick.C) {
			return nil
		}
	}
}

// readChanges reads what has changed. If it fails and there is an older state to show, it returns a warning instead of
// the error.
func (f *followedGroups) readChanges(ctx context.Context) (warning string, err error) {
	observes := f.stale && time.Since(f.observed) > minCloudInterval
	if err := f.readCluster(ctx, observes); err != nil {
		return f.warnInsteadOfError(ctx, err)
	}
	if !observes {
		return "", nil
	}
	found, err := f.line.findGroups(ctx, f.conn, f.nodes)
	if err != nil {
		return f.warnInsteadOfError(ctx, err)
	}
	f.found, f.stale, f.observed = found, false, time.Now()
	return "", nil
}

// warnInsteadOfError returns err as a warning if there is an older state to show, else as an error.
func (f *followedGroups) warnInsteadOfError(ctx context.Context, err error) (warning string, _ error) {
	if f.found.main == nil || ctx.Err() != nil {
		return "", err
	}
	f.observed = time.Now() // wait before the next try
	return "the list may be old: " + err.Error(), nil
}

// readCluster takes nodes and records from the watcher. Without a watcher it reads them if observes is true.
func (f *followedGroups) readCluster(ctx context.Context, observes bool) error {
	switch {
	case f.watcher != nil && f.changed:
		f.changed = false // set before reading, so that a change in between is not lost
		f.nodes = f.watcher.Nodes()
		f.records, f.unreadable = f.watcher.Records()
		return nil
	case f.watcher != nil || !observes:
		return nil
	}
	nodes, err := cluster.ListNodes(ctx, f.conn.Client)
	if err != nil {
		return explainReadError(err)
	}
	records, unreadable, err := f.loadRecords(ctx)
	if err == nil {
		f.nodes, f.records, f.unreadable = nodes, records, unreadable
	}
	return err
}

// waitForChange waits until there is something new to read or to show. It returns false when the context has ended.
func (f *followedGroups) waitForChange(ctx context.Context, cloudTick <-chan time.Time) (continues bool) {
	var changed, nodesChanged <-chan struct{}
	if f.watcher != nil {
		changed, nodesChanged = f.watcher.Changed(), f.watcher.NodesChanged()
	}
	var due <-chan time.Time
	if f.stale {
		due = time.After(time.Until(f.observed.Add(minCloudInterval)) + time.Millisecond)
	}
	select {
	case <-time.After(changePause): // several changes are shown together
	case <-ctx.Done():
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
		f.changed = true
	case <-f.screen.redrawTimer():
	case <-due:
	case <-nodesChanged:
		f.changed, f.stale = true, true
	case <-cloudTick:
		f.stale = true
	}
	return true
}

// listScreen shows a list of groups each time it changes. On a terminal it redraws the table. For a program it prints a
// document for each change. On a pipe it prints the table, and then a line for each group that has changed.
type listScreen struct {
	console
	// block is nil unless stdout is a terminal that can be redrawn.
	block *block
	last  *groupList
	// document is the last shown list as JSON.
	document string
}

func newListScreen(c console) listScreen {
	s := listScreen{console: c}
	if !c.isForPrograms() && mayRedraw(c.Out) {
		s.block = newBlock(c.Out)
	}
	return s
}

// redrawTimer returns a channel that receives when a terminal must be redrawn because ages have changed. It is nil
// without a terminal.
func (s *listScreen) redrawTimer() <-chan time.Time {
	if s.block == nil {
		return nil
	}
	return time.After(time.Second)
}

// showChange shows a list if it differs from the last one.
func (s *listScreen) showChange(now groupList) error {
	if s.block != nil {
		return s.draw(&now)
	}
	text, err := json.Marshal(now.list)
	if err != nil {
		return err
	}
	last := s.last
	if !s.isForPrograms() {
		var before []string
		if last != nil {
			before = last.hints
		}
		newHints := slices.DeleteFunc(slices.Clone(now.hints), func(hint string) bool { return slices.Contains(before, hint) })
		if err := s.writeNotes(newHints); err != nil {
			return err
		}
	}
	if last != nil && string(text) == s.document {
		s.last = &now
		return nil
	}
	s.last, s.document = &now, string(text)
	if last == nil || s.isForPrograms() {
		return now.print(s.console)
	}
	var lines []string
	for _, change := range report.DescribeGroupChanges(last.list, now.list) {
		lines = append(lines, s.now().Local().Format(time.TimeOnly)+"  "+sanitizeLine(change))
	}
	return writeLines(s.Out, lines)
}

// draw draws the table with the hints below it.
func (s *listScreen) draw(now *groupList) error {
	width, height := s.block.size()
	options := s.optionsFor(s.Out)
	options.Width = width - 1 // some terminals wrap after their last cell
	var table strings.Builder
	if err := report.WriteGroups(&table, now.list, options); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")
	if len(now.list.Items) == 0 {
		lines = nil
	}
	for _, hint := range now.hints {
		lines = append(lines, report.WrapLine(sanitizeLine(hint), width-1)...)
	}
	s.block.draw(report.FitLines(lines, width-1, height-1))
	return nil
}
