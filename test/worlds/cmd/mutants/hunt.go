package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/mutant"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/worlds"
)

// hunt is how mutants are looked for: in how many worlds each, of those with the strategy alone if one is named, and how many
// mutants at once. A mutant that is among the known is looked for in the world of that seed first,
// unless all is to be forgotten.
type hunt struct {
	worlds, parallel int
	strategy         string
	known            map[string]uint64
	forget           bool
}

// trace is what a hunt came to.
type trace struct {
	mutant mutant.Mutant
	// broken is the rule that gave the mutant away, in the world of that name; err is set where none did.
	broken, world string
	// innocent are the worlds that break a rule without the mutant, too.
	innocent []string
	took     time.Duration
	err      error
}

// all hunts the mutants, several at once, and yields what came of each in their order.
func (h hunt) all(mutants []mutant.Mutant) func(func(trace) bool) {
	return func(yield func(trace) bool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		seats := make(chan struct{}, max(1, h.parallel))
		traces := make([]chan trace, len(mutants))
		for i := range traces {
			traces[i] = make(chan trace, 1)
		}
		go func() {
			for i, m := range mutants {
				seats <- struct{}{}
				go func() {
					traces[i] <- h.one(ctx, m)
					<-seats
				}()
			}
		}()
		for _, t := range traces {
			if !yield(<-t) {
				return
			}
		}
	}
}

// one builds the worlds with a mutant in them and has them run.
func (h hunt) one(ctx context.Context, m mutant.Mutant) trace {
	began := time.Now()
	t := trace{mutant: m}
	scratch, err := os.MkdirTemp("", "mutant")
	if err != nil {
		t.err = fmt.Errorf("making a folder for it: %w", err)
		return t
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	binary, err := build(ctx, scratch, &m)
	if err == nil {
		err = h.search(ctx, binary, &t)
	}
	t.err, t.took = err, time.Since(began)
	return t
}

// build makes the command worlds with the mutant in the product's place.
func build(ctx context.Context, scratch string, m *mutant.Mutant) (binary string, err error) {
	overlay, err := m.Plant(scratch)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(scratch, "worlds")
	made := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-ldflags", "-s -w", "-o", binary, "./test/worlds/cmd/worlds")
	if out, err := made.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building it: %w: %.2000s", err, out)
	}
	return binary, nil
}

func brokenSeed() *regexp.Regexp { return regexp.MustCompile(`^((seed|found) (\d+)): (.*)$`) }

// search looks for the mutant in the world that found it the last time, and then in all of them. It returns an error when none finds it.
func (h hunt) search(ctx context.Context, binary string, t *trace) error {
	if seed, known := h.known[t.mutant.Name]; known {
		if err := h.chase(ctx, binary, t, "-first", strconv.FormatUint(seed, 10), "-n", "1"); err == nil {
			return nil
		}
	}
	return h.chase(ctx, binary, t, "-n", strconv.Itoa(h.worlds), "-found", "-strategy", h.strategy)
}

// chase runs worlds with the mutant, one after the other, until one breaks a rule that it does not break in this
// process, which runs the product as it is. It returns an error when none does.
func (h hunt) chase(ctx context.Context, binary string, t *trace, which ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := exec.CommandContext(ctx, binary, append(which, "-all", "-shrink=false", "-workers", "1")...)
	var complaint bytes.Buffer
	run.Stderr = &complaint
	out, err := run.StdoutPipe()
	if err != nil {
		return fmt.Errorf("listening to the worlds: %w", err)
	}
	if err := run.Start(); err != nil {
		return fmt.Errorf("running the worlds: %w", err)
	}
	finished := false
	pattern := brokenSeed()
	for lines := bufio.NewScanner(out); t.broken == "" && lines.Scan(); {
		finished = finished || bytes.HasPrefix(lines.Bytes(), []byte("action "))
		if found := pattern.FindStringSubmatch(lines.Text()); found != nil {
			if err := t.suspect(found[1], found[2], found[3], found[4]); err != nil {
				return err
			}
		}
	}
	cancel()
	_ = run.Wait() // it is killed, or errs because worlds broke
	switch {
	case t.broken != "":
		return nil
	case !finished:
		return fmt.Errorf("running the worlds: they ended early: %.2000s", complaint.String())
	default:
		return fmt.Errorf("not found in %d worlds: %s", h.worlds, t.mutant.What)
	}
}

// suspect takes a broken world for the mutant's doing unless it breaks without it. The world has a number among those that are drawn, or
// among those that were found.
func (t *trace) suspect(world, kind, number, rule string) error {
	plan, err := planOf(kind, number)
	if err != nil {
		return err
	}
	if worlds.Run(plan, nil).Broken != "" {
		t.innocent = append(t.innocent, world)
		return nil
	}
	t.broken, t.world = rule, world
	return nil
}

func planOf(kind, number string) (worlds.Plan, error) {
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || kind == "seed" {
		return worlds.Generate(n), err
	}
	found, err := worlds.Found()
	if err != nil || n == 0 || n > uint64(len(found)) {
		return worlds.Plan{}, fmt.Errorf("reading stored world %d of %d: %w", n, len(found), err)
	}
	return found[n-1], nil
}
