package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
)

// verb is a command about one upgrade that is recorded, from whichever machine.
type verb struct {
	// use is its word, doing what its errors begin with before the group.
	use, doing, short, long string
	run                     func(context.Context, *connection, *recordedUpgrade) error
}

// recordedUpgrade is the upgrade that a verb is about.
type recordedUpgrade struct {
	name   string
	store  *cluster.Store
	record upgrade.Record
}

func (o *options) verbCommand(v verb) *cobra.Command {
	return &cobra.Command{
		Use: v.use + " GROUP", Short: v.short, Long: v.long,
		Args:              func(cmd *cobra.Command, args []string) error { return usage(cobra.MaximumNArgs(1)(cmd, args)) },
		ValidArgsFunction: o.completeRecorded,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.completeVerb(cmd, v, args); err != nil {
				return usage(err)
			}
			conn, err := o.connect(cmd.Context())
			if err != nil {
				return err
			}
			u, err := o.recordedUpgrade(cmd.Context(), conn)
			if err != nil {
				return err
			}
			if err := over(v.doing, u.name, &u.record); err != nil {
				return err
			}
			return v.run(cmd.Context(), conn, u)
		},
	}
}

func (o *options) completeVerb(cmd *cobra.Command, v verb, args []string) error {
	if err := o.completeShared(args); err != nil {
		return err
	}
	o.again = again(cmd, args)
	if len(o.groups) == 0 && o.node == "" && o.selector == "" {
		return fmt.Errorf("no group is named: kubectl nodeupgrade %s GROUP", v.use)
	}
	if cmd.Flags().Lookup("dry-run") == nil {
		return nil
	}
	return o.completeDryRun(cmd, args)
}

// recordedUpgrade reads what is recorded of the group that was named. A name is taken as it is:
// neither the nodes nor a cloud need be asked.
func (o *options) recordedUpgrade(ctx context.Context, conn *connection) (*recordedUpgrade, error) {
	u := &recordedUpgrade{}
	switch {
	case o.node != "":
		s, err := o.open(ctx, conn)
		if err != nil {
			return nil, err
		}
		names, err := o.groupNames(ctx, s, func(string) []string { return nil })
		if err != nil {
			return nil, err
		}
		u.name = names[0]
	case o.selector != "":
		u.name = o.labels.String()
	default:
		u.name = o.groups[0]
	}
	u.store = cluster.NewStore(conn.client, o.stateSpace, u.name)
	var err error
	u.record, err = u.store.Load(ctx)
	return u, err
}

// enter reads the cluster for an upgrade that is recorded, whose settings stand.
func (o *options) enter(ctx context.Context, conn *connection, u *recordedUpgrade, m mode) (*session, error) {
	if err := o.repeat(u, m); err != nil {
		return nil, err
	}
	s, err := o.open(ctx, conn)
	if err == nil {
		s.account, err = s.provider.Account(ctx)
	}
	return s, err
}

// repeat fills in what the upgrade was begun with and the record tells: which nodes the group has
// and which of them are current.
func (o *options) repeat(u *recordedUpgrade, m mode) error {
	switch {
	case u.record.Cloudless():
		o.provider = "manual"
	case o.provider == "auto" && u.record.Provider != "":
		o.provider = u.record.Provider
	}
	if len(o.settings.Current) == 0 && (m != modeRollback || u.record.Cloudless()) {
		o.settings.Current = u.record.Request.Current
	}
	if !u.record.Cloudless() {
		return nil
	}
	if !strings.ContainsAny(u.name, "=!, ") { // it is what the nodes' labels call the group
		return nil
	}
	o.groups, o.node, o.selector = nil, "", u.name
	return o.completeNames(nil)
}

// ask leaves a request for whoever holds the upgrade.
func (u *recordedUpgrade) ask(ctx context.Context, verb upgrade.Verb) error {
	return u.store.Ask(ctx, upgrade.Asked{Verb: verb, Run: u.record.Run, By: person(), At: time.Now().UTC().Truncate(time.Second)})
}

// alive reports whether somebody holds the upgrade who gives a sign of life.
func (o *options) alive(ctx context.Context, conn *connection, group string, m mode) (bool, error) {
	name, err := holderOf(ctx, conn, o.stateSpace, group)
	if err != nil || name == "" {
		return false, err
	}
	progress := newProgress(o, group)
	defer progress.close()
	hold, err := o.acquire(ctx, conn, group, m, progress)
	var held *cluster.HeldError
	if errors.As(err, &held) {
		return true, nil
	}
	if err == nil {
		hold.Release()
	}
	return false, err
}

// printDone says in one line what became of an upgrade; for programs it is the upgrade's status.
func (o *options) printDone(u *recordedUpgrade, record upgrade.Record, lines ...string) error {
	status := statusOf(u.name, record)
	return o.output.print(o.Out, status, []string{groupPrefix + u.name}, func(report.Options) error {
		for i := range lines {
			lines[i] = oneLine(lines[i])
		}
		return writeLines(o.Out, lines)
	})
}

// newCompleteCommand is the verb that ends a soak; no strategy that there is has one.
func newCompleteCommand(o *options) *cobra.Command {
	cmd := o.verbCommand(verb{
		use: "complete", doing: "completing the upgrade of", short: "End the soak of an upgrade that has one",
		run: func(_ context.Context, _ *connection, u *recordedUpgrade) error {
			return usage(fmt.Errorf("completing the upgrade of group %q: %w: see kubectl nodeupgrade status %s", u.name, u.record.Allows(upgrade.VerbComplete), u.name))
		},
	})
	cmd.Hidden = true // until a strategy has a soak
	return cmd
}

// completeRecorded offers the names of groups with an upgrade that a verb could be about; whatever
// goes wrong, it is silent.
func (o *options) completeRecorded(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	o.ErrOut = io.Discard
	var names []string
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if conn, err := o.connect(ctx); err == nil {
		records, _ := cluster.Records(ctx, conn.client, o.stateSpace)
		for _, name := range slices.Sorted(maps.Keys(records)) {
			if record := records[name]; record.Resumable() && strings.HasPrefix(name, typed) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
