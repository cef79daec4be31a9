// Package cloud is the interface between an upgrade and the place its nodes come from. A Provider reads node groups and carries
// out the actions that package upgrade decides on. Each cloud has a folder that implements Provider. Policy lives only in package
// upgrade.
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
// Its methods may be called from several goroutines. Each call ends with its context. A provider repeats a request only if the
// repetition cannot have a second effect.
type Provider interface {
	// Name is "aws", "gke" or "manual".
	Name() string
	// Account returns the account and region of the credentials, for people: "account 123456789012, us-east-1".
	Account(ctx context.Context) (string, error)
	// Groups lists the groups that the nodes belong to, sorted by name. Their Wanted ignores --to. Groups that must not be
	// upgraded carry a Refusal.
	Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error)
	// Observe reads one group again. It returns an error that is ErrNotFound if the group does not exist.
	Observe(ctx context.Context, ref Ref) (nodegroup.Group, error)
	// Belongs reports whether the node is a member of the group as it was observed.
	Belongs(group *nodegroup.Group, node *corev1.Node) bool
	// Outdated reports whether a member node is outdated that has no instance in the group.
	Outdated(group *nodegroup.Group, node *corev1.Node) bool
	// Do carries out one action of package upgrade that concerns the cloud: SetRevision, Quiesce, Resume, RaiseMax, LowerMax,
	// AddCapacity, Terminate or, for a managed group, Delegate and CancelOperation. It returns an *Error for answers that the
	// caller has to distinguish. Cancelling an operation that has ended is OutcomeMoved.
	Do(ctx context.Context, group string, action nodegroup.Action) error
}

// Surveyor is a Provider whose cloud reports past launches and terminations, which make a plan's estimates more precise.
type Surveyor interface {
	// Survey reads these facts for a group as it was observed. It sends few requests, since only a plan uses the result.
	Survey(ctx context.Context, group *nodegroup.Group) (Survey, error)
}

// Authorizer is a Provider whose cloud reports in advance, at least in part, which actions the user may do.
type Authorizer interface {
	// CheckRights asks the cloud for the permissions that upgrading the group needs, and has no other effect. Permissions without
	// an answer are unverified.
	CheckRights(ctx context.Context, group *nodegroup.Group) Rights
}

// Balancer is a Provider whose cloud has load balancers that send traffic to the machines of its groups, or to pods on them.
type Balancer interface {
	// TargetGroups finds the target groups to watch while machines leave the group. These are the groups that the provider
	// registers the machines in, and the groups in bound, which objects of the cluster name.
	TargetGroups(ctx context.Context, group *nodegroup.Group, bound []string) (TargetGroups, error)
	// Targets reads the targets of the groups. It may skip a group if a reading of the last minute has none of the IDs. A group
	// that was deleted has no targets.
	Targets(ctx context.Context, groups []nodegroup.TargetGroup, ids []string) ([]nodegroup.Target, error)
}

// TargetGroups is the result of Balancer.TargetGroups.
type TargetGroups struct {
	Groups []nodegroup.TargetGroup
	// Skipped lists the bound target groups of other accounts, which these credentials cannot read.
	Skipped []string
	// Denied lists the actions that are needed to read target groups and that the user lacks, as the cloud's policies name them.
	// If it is not empty, Groups is.
	Denied []string
}

// Rights lists actions that an upgrade needs, as the cloud's policies name them: actions that the user may not do, and actions
// that the cloud does not answer for in advance.
type Rights struct{ Denied, Unverified []string }

// Survey is what a cloud remembers of a group's machines, and its free addresses for more. Any part may be missing.
type Survey struct {
	// Launched is the launch time of the group's machines, by instance ID.
	Launched map[string]time.Time
	// Terminations lists how long past terminations of the group's machines took from beginning to end, the newest first.
	Terminations []time.Duration
	// Subnets lists the subnets of the group's machines.
	Subnets []nodegroup.Subnet
}

// Ref names a group and, with To, the revision to treat as wanted.
type Ref struct {
	Name string
	// To is the user's --to. If it is empty, the group's template decides; for a managed group, the cloud's own default does.
	To string
}

// ErrNotFound means that the group does not exist.
var ErrNotFound = errors.New("no such node group")

// ErrOtherCluster means that the user's name for the cluster belongs to another cluster than the nodes.
var ErrOtherCluster = errors.New("that is not the cloud's name of this cluster")

// Error is an error of the cloud with its outcome.
type Error struct {
	// Outcome is nodegroup.OutcomeMoved, OutcomeLater, OutcomeUnclear, OutcomeExhausted, OutcomeUnsupported or OutcomeFatal.
	Outcome nodegroup.Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cloud's own error.
func (e *Error) Unwrap() error { return e.Err }

// Unsupported returns the error for an action that the provider does not support.
func Unsupported(provider string, action nodegroup.Action) error {
	return &Error{Outcome: nodegroup.OutcomeFatal, Err: fmt.Errorf("provider %s cannot %s", provider, action)}
}
