// Command bench measures how simulated upgrades grow with their group and, on one real control plane and in one
// run, how long a drain takes beside its rival and beside its floor. It prints ratios; nothing in it passes or fails.
//
//	bench [-only sizes|drain]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	only := flag.String("only", "", "sizes for the simulated upgrades, drain for those of a real control plane (both)")
	nodes := flag.Int("simulate", 0, "simulate a group of so many nodes and print its figures as JSON")
	flag.Parse()
	err := run(ctx, *only, *nodes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, nodes int) error {
	if nodes > 0 {
		return measureHere(nodes)
	}
	if only != "drain" {
		if err := sizes(ctx); err != nil {
			return err
		}
	}
	if only != "sizes" {
		return drains(ctx)
	}
	return nil
}

func drains(ctx context.Context) error {
	s, err := stage.New(ctx, stage.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	defer s.Close()
	return oneNode(ctx, s)
}

// figure is one way to drain, measured.
type figure struct {
	way         string
	took        time.Duration
	calls, pods int
}

// write writes the figures of a scenario with their ratios to its floor and to the first of them, the rival.
func write(title, formula string, floor time.Duration, figures []figure) error {
	fmt.Printf("\n%s\nfloor = %s = %s\n\n", title, formula, floor)
	var rows [][]string
	for _, f := range figures {
		rows = append(rows, []string{
			f.way, f.took.Round(10 * time.Millisecond).String(),
			fmt.Sprintf("%.2f", f.took.Seconds()/floor.Seconds()),
			fmt.Sprintf("%.2f", f.took.Seconds()/figures[0].took.Seconds()),
			fmt.Sprintf("%.2f", float64(f.calls)/float64(f.pods)),
		})
	}
	return report.WriteTable(os.Stdout, report.Plain, []string{"WAY", "TIME", "TO-FLOOR", "TO-RIVAL", "EVICTIONS-PER-POD"}, rows)
}
