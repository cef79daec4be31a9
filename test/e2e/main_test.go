package e2e

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// atOnce is how many scenes take place at the same time unless -parallel says otherwise: an upgrade mostly waits.
const atOnce = "8"

func TestMain(m *testing.M) {
	if address := os.Getenv(loginAddress); address != "" {
		os.Exit(logIn(address, os.Stdout, os.Stderr))
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err) // the testing package has always had it
		}
	}
	code := m.Run()
	common.close()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && !testing.Short() {
		code = checkSample(os.Stderr)
	}
	os.Exit(code)
}

// common is the stage of all tests that need no times of their own.
var common lazyStage

// lazyStage is a stage that starts when the first test asks for it, and outlives that test.
type lazyStage struct {
	once  sync.Once
	stage *stage.Stage
	err   error
}

// forTest is [stage.ForTest] on the stage that others play on at the same time: each scene needs a name of its own.
func (l *lazyStage) forTest(t *testing.T) *stage.Stage {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	l.once.Do(func() { l.stage, l.err = stage.New(context.WithoutCancel(t.Context()), quick()) })
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.stage
}

func (l *lazyStage) close() {
	if l.stage != nil {
		l.stage.Close()
	}
}
