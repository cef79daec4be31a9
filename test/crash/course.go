package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/gkecloud"
)

// course is one use of a GKE node pool: the command that is interrupted, what happens before and after it, and what GKE must have done.
type course struct {
	name string
	// verb is the verb of the interrupted command; "" for the command that starts the upgrade. flags are flags of the latter.
	verb  record.Verb
	flags []string
	// holds is true if GKE's first operation replaces one node, and then waits until it is cancelled.
	holds bool
	// begin brings the pool to the state in which the interrupted command is run; nil for none.
	begin func(*poolCase, context.Context) error
	// isPaused is true if another user pauses the upgrade while the interrupted command runs.
	isPaused bool
	// code is the exit code of the command that ends the course. leaves is true if another command must resume the upgrade after it.
	code   int
	leaves bool
	// operations are all operations that GKE must have begun. version is the version that all nodes must have in the end.
	operations []string
	version    string
	// total is how many nodes the recorded upgrade replaces; 0 for all.
	total int
}

// The versions of a pool before and after its upgrade.
const (
	oldVersion = gkecloud.NodeVersion
	newVersion = "1.34.3-gke.1200" // that of the control plane
)

// The operations of GKE, as the stand-in describes them.
const (
	upgraded   = "upgrade to " + newVersion + ": DONE"
	cancelled  = "upgrade to " + newVersion + ": Operation was aborted: the user cancelled it."
	rolledBack = "rollback to " + oldVersion + ": DONE"
)

// courses returns all courses.
func courses() []course {
	blueGreen := func(soak string) []string { return []string{"--strategy=blue-green", "--batch=2", "--soak=" + soak} }
	all := []course{
		{name: "surge", operations: []string{upgraded}},
		{name: "blue-green", flags: blueGreen("3s"), operations: []string{upgraded}},
		{name: "paused", holds: true, isPaused: true, code: exitPaused, leaves: true, operations: []string{cancelled, upgraded}},
		{name: "pause", verb: record.VerbPause, holds: true, begin: (*poolCase).beginUpgrade, leaves: true, operations: []string{cancelled, upgraded}},
		{name: "resume", verb: verbResume, holds: true, begin: (*poolCase).pauseUpgrade, operations: []string{cancelled, upgraded}},
		{name: "rollback", verb: record.VerbRollback, holds: true, begin: (*poolCase).leaveUpgrade, operations: []string{cancelled, rolledBack}, version: oldVersion, total: 1},
		{name: "rollback-in-soak", verb: record.VerbRollback, flags: blueGreen("1h"), begin: (*poolCase).upgradeToSoak, operations: []string{cancelled, rolledBack}, version: oldVersion},
		{name: "complete", verb: record.VerbComplete, flags: blueGreen("1h"), begin: (*poolCase).upgradeToSoak, operations: []string{upgraded}},
	}
	for i := range all {
		if all[i].version == "" {
			all[i].version = newVersion
		}
	}
	return all
}

// verbResume is not one of record.Verbs, because no process obeys it.
const verbResume record.Verb = "resume"

// allCourses is the value of -gke for all courses.
const allCourses = "all"

// findCourses returns the courses with the name, or all of them. It returns an error if there is none.
func findCourses(name string) ([]course, error) {
	all := courses()
	if name == allCourses {
		return all, nil
	}
	i := slices.IndexFunc(all, func(c course) bool { return c.name == name })
	if i < 0 {
		var names []string
		for i := range all {
			names = append(names, all[i].name)
		}
		return nil, fmt.Errorf("-gke=%s is neither %q nor one of %s", name, allCourses, strings.Join(names, ", "))
	}
	return all[i : i+1], nil
}

// args returns the arguments of the interrupted command for the pool.
func (c *course) args(pool string) []string {
	switch c.verb {
	case "":
		return c.upgradeArgs(pool)
	case record.VerbPause:
		return []string{string(c.verb), pool}
	default:
		return []string{string(c.verb), pool, "--yes", "--parallel-groups"}
	}
}

// upgradeArgs returns the arguments of the command that starts the upgrade of the pool.
func (c *course) upgradeArgs(pool string) []string {
	return append([]string{pool, "--yes", "--parallel-groups", "--progress=json", "--boot-timeout=5m"}, c.flags...)
}

// repeatedArgs returns the arguments of the command that is run again after its process was killed. Without --takeover, which verbs do
// not have, it waits a minute for the lease of the killed one.
func (c *course) repeatedArgs(pool string) []string {
	if c.verb != "" {
		return c.args(pool)
	}
	return append(c.args(pool), "--takeover")
}
