package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud/karpenter"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// foundGroups are the groups of a cluster and their providers.
type foundGroups struct {
	providers
	groups []nodegroup.Group
	// warning is set if a provider could not be read and the groups were found by labels; "" otherwise.
	warning string
}

// findGroups lists the groups. If the cloud or Karpenter's NodePools cannot be read, it takes their groups from the nodes'
// labels.
func (l *commandLine) findGroups(ctx context.Context, conn *connection, nodes []*corev1.Node) (foundGroups, error) {
	opened, err := l.openProviders(ctx, conn, nodes)
	found := foundGroups{providers: opened}
	if err == nil {
		if found.groups, err = opened.listGroups(ctx, nodes); err == nil {
			return found, nil
		}
	}
	if l.providerName != providerAuto || len(l.groups.names) > 0 || l.groups.node != "" || errors.Is(err, cloud.ErrOtherCluster) {
		return foundGroups{}, err
	}
	fallbacks := []providers{{main: l.newManualProvider(), pools: opened.pools}, {main: l.newManualProvider()}}
	if unread := (*poolsError)(nil); errors.As(err, &unread) {
		fallbacks = []providers{{main: opened.main}}
	}
	found.warning = "groups are taken from labels: " + err.Error()
	for _, found.providers = range fallbacks {
		if found.groups, err = found.listGroups(ctx, nodes); err == nil {
			break
		}
	}
	return found, err
}

// resolveGroupNames returns the names of the groups that the user chose. The error for an unknown name lists the
// groups.
func (s *session) resolveGroupNames(ctx context.Context, chosen groupSelection, suggest func(string) []string) ([]string, error) {
	groups, err := s.listGroups(ctx, s.cluster.view.Nodes)
	if err != nil {
		return nil, err
	}
	names := groupNames(groups)
	switch {
	case chosen.node != "":
		name, err := findGroupOfNode(s.providers, groups, s.cluster.view.Nodes, chosen.node)
		return []string{name}, err
	case chosen.selector != "":
		if len(names) == 0 {
			return nil, usageError(fmt.Errorf("finding the group: no node matches --selector=%s: check kubectl get nodes --show-labels", chosen.selector))
		}
		return names, nil
	}
	found := slices.Clone(chosen.names)
	for i, wanted := range chosen.names {
		switch pool := karpenter.GroupName(wanted); {
		case slices.Contains(names, wanted):
		case slices.Contains(names, pool): // a NodePool may be named without its prefix
			found[i] = pool
		default:
			return nil, usageError(unknownGroupError(wanted, names, suggest(wanted)))
		}
	}
	return found, nil
}

// openNamedGroups returns the names of the groups that the user chose. If a name is not a group's but a label selector,
// it opens another session for the labelled nodes, because status and errors print such groups by their selector. With
// --provider=aws such a name is unknown.
func (s *session) openNamedGroups(ctx context.Context, chosen groupSelection, suggest func(string) []string) (*session, []string, error) {
	names, err := s.resolveGroupNames(ctx, chosen, suggest)
	mayBeLabelled := s.line.providerName == providerAuto || s.line.providerName == providerManual
	if err == nil || !mayBeLabelled || len(chosen.names) != 1 || !nodegroup.IsSelector(chosen.names[0]) {
		return s, names, err
	}
	labelled, err := s.openLabelledNodes(ctx, chosen.names[0], nil)
	if err != nil {
		return s, nil, err
	}
	names, err = labelled.resolveGroupNames(ctx, labelled.line.groups, suggest)
	return labelled, names, err
}

// openLabelledNodes opens another session for the nodes of a label selector. Without --current, nodes with the labels
// in current are current.
func (s *session) openLabelledNodes(ctx context.Context, selector string, current map[string]string) (*session, error) {
	line := *s.line
	line.providerName = providerManual
	if len(line.settings.Current) == 0 {
		line.settings.Current = current
	}
	var err error
	if line.groups, err = parseGroups(nil, groupSelection{selector: selector}, line.providerName); err != nil {
		return nil, err
	}
	return (&command{&line, s.conn}).openSession(ctx)
}

func groupNames(groups []nodegroup.Group) []string {
	var names []string
	for i := range groups {
		names = append(names, groups[i].Name)
	}
	return names
}

func unknownGroupError(wanted string, names, verbs []string) error {
	switch {
	case len(verbs) > 0:
		return fmt.Errorf("no node group %q: did you mean the command %q", wanted, verbs[0])
	case len(names) == 0:
		return fmt.Errorf("no node group %q: no node of the cluster belongs to a known group: pass -l SELECTOR --current KEY=VALUE", wanted)
	default:
		return fmt.Errorf("no node group %q; groups: %s", wanted, strings.Join(names, ", "))
	}
}

func findGroupOfNode(of providers, groups []nodegroup.Group, nodes []*corev1.Node, node string) (string, error) {
	i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == node })
	if i < 0 {
		return "", usageError(fmt.Errorf("finding the group of node %q: %w: check kubectl get nodes", node, errUnknownNode))
	}
	for g := range groups {
		if of.belongs(&groups[g], nodes[i]) {
			return groups[g].Name, nil
		}
	}
	return "", usageError(fmt.Errorf("node %q belongs to no known node group: pass -l SELECTOR --current KEY=VALUE", node))
}

// suggestNoCommand returns no suggestions. It is for commands without subcommands.
func suggestNoCommand(string) []string { return nil }

// errUnknownNode is the error for a --node that is not in the cluster.
var errUnknownNode = errors.New("no such node")

// rejectSeveralGroups returns a usage error if there is more than one argument.
func rejectSeveralGroups(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return usageError(fmt.Errorf("%s takes one group; got %s", cmd.Name(), strings.Join(args, ", ")))
}
