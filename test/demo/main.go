// Command demo shows a complete upgrade: a real control plane, an Auto Scaling group with outdated nodes, workloads with budgets,
// and the plugin behind a real kubectl. It checks the final state and exits with 1 if a check fails. With -record it also draws the plan and the upgrade
// on a terminal as an animated picture.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

const group = "workers"

func main() {
	picture := flag.String("record", "", "Record the plan and the upgrade, and write them into this SVG file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *picture)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, picture string) error {
	fmt.Println("Starting a control plane and a cloud on this machine (the first time builds them: some minutes).")
	s, err := fixture.New(ctx, fixture.Options{Log: os.Stderr, Cloud: awscloud.Options{Boot: 3 * time.Second, NodeReady: 2 * time.Second, Terminate: 2 * time.Second}})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := setUp(ctx, s); err != nil {
		return err
	}
	before, err := takeSnapshot(ctx, s)
	if err != nil {
		return err
	}
	budgets, err := s.WatchBudgets(ctx)
	if err != nil {
		return err
	}
	if err := upgradeAll(ctx, s, picture); err != nil {
		return err
	}
	broken, seen := budgets.Stop()
	return before.compare(ctx, s, broken, seen)
}

// upgradeAll shows the plan and upgrades the group. With the name of a file for the picture it records both.
func upgradeAll(ctx context.Context, s *fixture.Fixture, picture string) error {
	upgrade := []string{
		"nodeupgrade workers --dry-run",
		"nodeupgrade workers --yes --settle 5s", // shorter than EKS's 60 s, so that the demo does not take long
	}
	if picture != "" {
		return record(ctx, s, upgrade, picture)
	}
	for _, args := range slices.Concat([]string{"nodeupgrade"}, upgrade, []string{"nodeupgrade"}) {
		if err := show(ctx, s, args); err != nil {
			return err
		}
	}
	return nil
}

// setUp creates a group of 12 nodes, with a different number in each of three zones, and workloads that fill it.
func setUp(ctx context.Context, s *fixture.Fixture) error {
	err := s.AddGroup(fixture.Group{
		Name: group, Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}, Counts: []int{7, 3, 2}, Max: 12,
		Suspended: []string{"AZRebalance"}, // otherwise the group would balance its zones at once
	})
	if err != nil {
		return err
	}
	for _, w := range []fixture.Workload{
		{Name: "web", Replicas: 12, Ready: time.Second, Gone: time.Second, MaxUnavailable: "2"},
		{Name: "cart", Replicas: 6, Ready: time.Second, Gone: time.Second, MinAvailable: "5"},
		{Name: "search", Replicas: 8, Ready: 2 * time.Second, Gone: time.Second, MaxUnavailable: "25%"},
		{Name: "mailer", Replicas: 1, Ready: time.Second, Gone: time.Second},
		{Name: "db", Kind: "StatefulSet", Replicas: 3, Ready: 2 * time.Second, Gone: 2 * time.Second, MaxUnavailable: "1"},
		{Name: "agent", Kind: "DaemonSet", Ready: time.Second, Gone: time.Second},
	} {
		if err := s.Add(ctx, w); err != nil {
			return err
		}
	}
	return s.Settle(ctx)
}

// show runs kubectl as a user would, on this terminal.
func show(ctx context.Context, s *fixture.Fixture, args string) error {
	fmt.Printf("\n$ kubectl %s\n", args)
	code, err := s.Start(ctx, os.Stdout, os.Stderr, nil, strings.Fields(args)...).Wait()
	if err != nil {
		return err
	}
	if code != 0 {
		return errors.New("kubectl " + args + " failed")
	}
	return nil
}
