// Package cloud defines what an upgrade needs from the cloud that provides its nodes. A Provider reads node groups and carries
// out the actions that package upgrade decides on. Each cloud has a folder that implements Provider. Policy lives only in
// package upgrade.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Provider reads and changes the node groups of one cluster.
//
// Its methods may be called from several goroutines. Each call returns when its context ends. A provider repeats a request only
// if the repetition cannot have a second effect.
type Provider interface {
	// Name is "aws", "gke" or "manual".
	Name() string
	// Account returns the account and region of the credentials as text for people: "account 123456789012, us-east-1".
	Account(ctx context.Context) (string, error)
	// Groups lists the groups that the nodes belong to, sorted by name. The Wanted of these groups ignores --to. Groups that
	// must not be upgraded have a Refusal.
	Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error)
	// Observe reads one group again. If the group does not exist, the error is ErrNotFound.
	Observe(ctx context.Context, ref Ref) (nodegroup.Group, error)
	// Belongs reports whether the node was a member of the group when the group was last observed.
	Belongs(group *nodegroup.Group, node *corev1.Node) bool
	// Outdated reports whether a member of the group is outdated. It is only for nodes without an instance in the group.
	Outdated(group *nodegroup.Group, node *corev1.Node) bool
	// Do carries out one action that changes the cloud: SetRevision, Quiesce, Resume, RaiseMax, LowerMax, AddCapacity,
	// Terminate or, for a managed group, Delegate and CancelOperation. It returns an *Error with an Outcome for answers that
	// the caller must distinguish. If a cancelled operation has already ended, the Outcome is OutcomeMoved.
	Do(ctx context.Context, group string, action nodegroup.Action) error
}

// Surveyor is a Provider whose cloud reports past launches and terminations. They make a plan's estimates more precise.
type Surveyor interface {
	// Survey reads the past launches and terminations of an observed group. It sends few requests, because only a plan uses the
	// result.
	Survey(ctx context.Context, group *nodegroup.Group) (Survey, error)
}

// Authorizer is a Provider whose cloud reports in advance which actions the user may do. The cloud need not answer for every
// action.
type Authorizer interface {
	// CheckRights asks the cloud whether the user has the permissions for upgrading the group. It changes nothing. Permissions
	// without an answer are unverified.
	CheckRights(ctx context.Context, group *nodegroup.Group) Rights
}

// Balancer is a Provider whose cloud has load balancers. They send traffic to the machines of a group, or to pods on these
// machines.
type Balancer interface {
	// TargetGroups finds the target groups to watch while machines leave the group. The cloud registers the machines in some of
	// them. The others are in bound, because objects of the cluster name them.
	TargetGroups(ctx context.Context, group *nodegroup.Group, bound []string) (TargetGroups, error)
	// Targets reads the targets of the target groups. It may return an older reading of a target group if that reading is less
	// than a minute old and contains none of the IDs. A deleted target group has no targets.
	Targets(ctx context.Context, groups []nodegroup.TargetGroup, ids []string) ([]nodegroup.Target, error)
}

// TargetGroups is the result of Balancer.TargetGroups.
type TargetGroups struct {
	Groups []nodegroup.TargetGroup
	// Skipped lists the bound target groups of other accounts, which these credentials cannot read.
	Skipped []string
	// Denied lists the actions that are needed to read target groups and that the user may not do, as the cloud's policies name
	// them. If Denied is not empty, Groups is empty.
	Denied []string
}

// Rights lists actions that an upgrade needs, as the cloud's policies name them. The user may not do the Denied actions. The
// cloud does not report in advance whether the user may do the Unverified actions.
type Rights struct{ Denied, Unverified []string }

// Survey contains the history of a group's machines, and the free addresses for more machines. Any part may be missing.
type Survey struct {
	// Launched is the launch time of the group's machines, by instance ID.
	Launched map[string]time.Time
	// Terminations lists the durations of past terminations of the group's machines, the newest first.
	Terminations []time.Duration
	// Subnets lists the subnets of the group's machines.
	Subnets []nodegroup.Subnet
}

// Ref names a group and, in To, the revision that its nodes should have.
type Ref struct {
	Name string
	// To is the user's --to. If To is empty, the group's template is the wanted revision. For a managed group it is the cloud's
	// own default.
	To string
}

// ErrNotFound means that the group does not exist.
var ErrNotFound = errors.New("no such node group")

// ErrOtherCluster means that the nodes belong to another cluster than the one that the user named.
var ErrOtherCluster = errors.New("that is not the cloud's name of this cluster")

// Error is an error of a request to the cloud, with the outcome for the action.
type Error struct {
	// Outcome is nodegroup.OutcomeMoved, OutcomeLater, OutcomeUnclear, OutcomeExhausted, OutcomeUnsupported or OutcomeFatal.
	Outcome nodegroup.Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cloud's error.
func (e *Error) Unwrap() error { return e.Err }

// Unsupported returns the error for an action that the provider does not support.
func Unsupported(provider string, action nodegroup.Action) error {
	return &Error{Outcome: nodegroup.OutcomeFatal, Err: fmt.Errorf("provider %s cannot %s", provider, action)}
}
