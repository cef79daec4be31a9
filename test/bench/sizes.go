package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/bench/fleet"
)

// inFlight is how many nodes each simulated upgrade replaces at a time.
const inFlight = 20

// sizeMeasurement is the measurement of one call of simulate.Predict, which simulates the upgrade twice.
type sizeMeasurement struct {
	Nodes, Pods, Steps int
	Wall, CPU          time.Duration
	// Peak is the process's largest resident size in MiB. It includes the objects of the simulated cluster.
	Peak int
	// Virtual is the predicted duration of the upgrade.
	Virtual time.Duration
}

// runSizes predicts upgrades of groups of increasing size, each in its own process, and prints how time and memory grow.
func runSizes(ctx context.Context) error {
	fmt.Printf("Plans of groups with %d pods a node, %d nodes in flight, each simulated with fast and with slow terminations\n\n",
		fleet.PodsPerNode, inFlight)
	var rows [][]string
	var before *sizeMeasurement
	for _, nodes := range []int{100, 300, 1000, 3000} {
		m, err := measureInNewProcess(ctx, nodes)
		if err != nil {
			return err
		}
		rows = append(rows, m.row(before))
		before = m
	}
	return report.WriteTable(os.Stdout, report.Plain,
		[]string{"NODES", "PODS", "WALL-S", "CPU-S", "PEAK-MIB", "STEPS", "US-PER-NODE", "TO-LINEAR", "EXPONENT", "WOULD-TAKE"}, rows)
}

// row returns the row of the table, with the growth of the CPU time since the previous size. TO-LINEAR is this growth divided by the
// growth of the number of nodes. EXPONENT is e if the CPU time grows with the e-th power of the number of nodes. Both are 1 if the cost
// per node is constant.
func (m *sizeMeasurement) row(before *sizeMeasurement) []string {
	growth, exponent := "-", "-"
	if before != nil {
		nodes, cpu := float64(m.Nodes)/float64(before.Nodes), m.CPU.Seconds()/before.CPU.Seconds()
		growth, exponent = fmt.Sprintf("%.2f", cpu/nodes), fmt.Sprintf("%.2f", math.Log(cpu)/math.Log(nodes))
	}
	return []string{
		strconv.Itoa(m.Nodes), strconv.Itoa(m.Pods), fmt.Sprintf("%.2f", m.Wall.Seconds()), fmt.Sprintf("%.2f", m.CPU.Seconds()), strconv.Itoa(m.Peak),
		strconv.Itoa(m.Steps), fmt.Sprintf("%.0f", m.CPU.Seconds()/float64(m.Nodes)*1e6), growth, exponent, m.Virtual.Round(time.Minute).String(),
	}
}

// measureInNewProcess measures in a new process, so that the memory of the previous size does not count.
func measureInNewProcess(ctx context.Context, nodes int) (*sizeMeasurement, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "-simulate", strconv.Itoa(nodes))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("simulating %d nodes: %w", nodes, err)
	}
	var m sizeMeasurement
	if err := json.Unmarshal(out, &m); err != nil {
		return nil, fmt.Errorf("reading the figures of %d nodes: %w", nodes, err)
	}
	return &m, nil
}

// measureInThisProcess predicts one upgrade and writes its figures to stdout.
func measureInThisProcess(ctx context.Context, nodes int) error {
	spec := fleet.New(nodes)
	runtime.GC() // so that the garbage of the fleet's construction does not count
	m := sizeMeasurement{Nodes: nodes, Pods: len(spec.Pods)}
	began, used := time.Now(), ownCPUTime()
	spec.Times, _ = simulate.Estimate(&spec)
	f, err := simulate.Predict(ctx, spec, fleet.Request(inFlight))
	m.Wall, m.CPU = time.Since(began), ownCPUTime()-used
	if err != nil {
		return err
	}
	if f.Slow.Result != record.Succeeded || f.Evictions == 0 {
		return fmt.Errorf("simulating an upgrade of %d nodes: its result is %q after %d evictions, but the benchmark needs an upgrade that succeeds", nodes, f.Slow.Result, f.Evictions)
	}
	m.Virtual, m.Steps, m.Peak = f.Duration.Latest.Duration, f.Steps, peakMiB()
	return json.NewEncoder(os.Stdout).Encode(m)
}

func ownUsage() (u syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails only for an invalid argument
	return u
}

func ownCPUTime() time.Duration {
	u := ownUsage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMiB returns the largest resident size of this process so far. Linux gives it in KiB.
func peakMiB() int {
	u := ownUsage()
	return int(u.Maxrss >> 10)
}
