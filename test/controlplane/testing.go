package controlplane

import "testing"

const failedLogLines = 40

// ForTest starts a cluster for the duration of the test. It skips the test under -short. If the test fails, it logs the ends of the
// components' logs. The time of a build counts towards the test's timeout. Before the first run, build with
// "go run ./test/controlplane/cmd/programs".
func ForTest(t testing.TB, options Options) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("skipping: -short starts no control plane")
	}
	if options.Log == nil {
		options.Log = t.Output()
	}
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.logTails(t)
		}
		c.Stop()
	})
	return c
}

func (c *Cluster) logTails(t testing.TB) {
	t.Helper()
	for _, p := range c.processes {
		t.Logf("the end of %s:\n%s", p.log, readTail(p.log, failedLogLines))
	}
}
