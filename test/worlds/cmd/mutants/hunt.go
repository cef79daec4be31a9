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

// hunt contains the settings of a search for mutants.
type hunt struct {
	// worlds is the number of worlds for each mutant. parallel is the number of mutants at the same time. If strategy is set, only
	// worlds with that strategy count. known is the seed of the world that last found each mutant. It is not used if forget is set.
	worlds, parallel int
	strategy         string
	known            map[string]uint64
	forget           bool
}

// huntResult is the result of the search for one mutant.
type huntResult struct {
	mutant mutant.Mutant
	// broken is the rule that the mutant broke. world is the name of that world. err is set if the mutant broke no rule.
	broken, world string
	// innocent lists the worlds that also break a rule without the mutant.
	innocent []string
	took     time.Duration
	err      error
}

// huntAll searches for the mutants in parallel and yields the results in the order of the mutants.
func (h hunt) huntAll(mutants []mutant.Mutant) func(func(huntResult) bool) {
	return func(yield func(huntResult) bool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		seats := make(chan struct{}, max(1, h.parallel))
		traces := make([]chan huntResult, len(mutants))
		for i := range traces {
			traces[i] = make(chan huntResult, 1)
		}
		go func() {
			for i, m := range mutants {
				seats <- struct{}{}
				go func() {
					traces[i] <- h.huntOne(ctx, m)
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

// huntOne builds the command worlds with the mutant, and runs worlds until one finds the mutant.
func (h hunt) huntOne(ctx context.Context, m mutant.Mutant) huntResult {
	began := time.Now()
	t := huntResult{mutant: m}
	scratch, err := os.MkdirTemp("", "mutant")
	if err != nil {
		t.err = fmt.Errorf("making a folder for it: %w", err)
		return t
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	binary, err := buildWorlds(ctx, scratch, &m)
	if err == nil {
		err = h.searchWorlds(ctx, binary, &t)
	}
	t.err, t.took = err, time.Since(began)
	return t
}

// buildWorlds builds the command worlds with the mutant in place of the product's source.
func buildWorlds(ctx context.Context, scratch string, m *mutant.Mutant) (binary string, err error) {
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

func brokenWorldPattern() *regexp.Regexp { return regexp.MustCompile(`^((seed|found) (\d+)): (.*)$`) }

// searchWorlds looks for the mutant in the world that last found it, and then in all worlds. It returns an error if no world finds it.
func (h hunt) searchWorlds(ctx context.Context, binary string, t *huntResult) error {
	if seed, known := h.known[t.mutant.Name]; known {
		if err := h.runWorlds(ctx, binary, t, "-first", strconv.FormatUint(seed, 10), "-n", "1"); err == nil {
			return nil
		}
	}
	return h.runWorlds(ctx, binary, t, "-n", strconv.Itoa(h.worlds), "-found", "-strategy", h.strategy)
}

// runWorlds runs worlds with the mutant, one after the other, until one breaks a rule. That world must not break a rule in this
// process, which runs the unchanged product. runWorlds returns an error if no world finds the mutant.
func (h hunt) runWorlds(ctx context.Context, binary string, t *huntResult, which ...string) error {
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
	pattern := brokenWorldPattern()
	for lines := bufio.NewScanner(out); t.broken == "" && lines.Scan(); {
		finished = finished || bytes.HasPrefix(lines.Bytes(), []byte("action "))
		if found := pattern.FindStringSubmatch(lines.Text()); found != nil {
			if err := t.noteBrokenWorld(found[1], found[2], found[3], found[4]); err != nil {
				return err
			}
		}
	}
	cancel()
	_ = run.Wait() // the error is expected: the process is killed, or fails because worlds broke rules
	switch {
	case t.broken != "":
		return nil
	case !finished:
		return fmt.Errorf("running the worlds: they ended early: %.2000s", complaint.String())
	default:
		return fmt.Errorf("not found in %d worlds: %s", h.worlds, t.mutant.What)
	}
}

// noteBrokenWorld records a world that broke a rule with the mutant. If it also breaks a rule without the mutant, the world is
// innocent. kind and number name the world: "seed" and its seed, or "found" and its number among the stored worlds.
func (t *huntResult) noteBrokenWorld(world, kind, number, rule string) error {
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
	found, err := worlds.StoredPlans()
	if err != nil || n == 0 || n > uint64(len(found)) {
		return worlds.Plan{}, fmt.Errorf("reading stored world %d of %d: %w", n, len(found), err)
	}
	return found[n-1], nil
}
