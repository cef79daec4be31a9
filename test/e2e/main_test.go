package e2e

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// atOnce is how many cases run in parallel by default. An upgrade mostly waits.
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
			panic(err) // the testing package always has this flag
		}
	}
	code := m.Run()
	common.close()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && !testing.Short() {
		code = checkSample(os.Stderr)
	}
	os.Exit(code)
}

// common is the fixture of all tests that need no special times.
var common lazyFixture

// lazyFixture is a fixture that starts when the first test uses it, and stays after that test.
type lazyFixture struct {
	once    sync.Once
	fixture *fixture.Fixture
	err     error
}

// forTest is [fixture.ForTest] for a fixture that other tests use at the same time. Each case needs a name of its own.
func (l *lazyFixture) forTest(t *testing.T) *fixture.Fixture {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane, which -short leaves out")
	}
	l.once.Do(func() { l.fixture, l.err = fixture.New(context.WithoutCancel(t.Context()), quick()) })
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.fixture
}

func (l *lazyFixture) close() {
	if l.fixture != nil {
		l.fixture.Close()
	}
}
