package e2e

import (
	"context"
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// atOnce is how many cases run in parallel by default. It exceeds the number of cores, because upgrades mostly wait.
const atOnce = "8"

func TestMain(m *testing.M) {
	if address := os.Getenv(loginAddress); address != "" {
		os.Exit(runCredentialPlugin(address, os.Stdout, os.Stderr))
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
	commonFixture.close()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && !testing.Short() {
		code = checkSampledNames(os.Stderr)
	}
	os.Exit(code)
}

// commonFixture is the fixture of all tests that need no special options.
var commonFixture lazyFixture

// lazyFixture is a fixture that starts when the first test uses it, and runs until all tests have ended.
type lazyFixture struct {
	once    sync.Once
	fixture *fixture.Fixture
	err     error
}

// forTest is like [fixture.ForTest], but other tests use the fixture at the same time. Each case needs its own name.
func (l *lazyFixture) forTest(t *testing.T) *fixture.Fixture {
	t.Helper()
	if testing.Short() {
		t.Skip("the test needs a control plane, which -short does not start")
	}
	l.once.Do(func() { l.fixture, l.err = fixture.New(context.WithoutCancel(t.Context()), quickOptions()) })
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
