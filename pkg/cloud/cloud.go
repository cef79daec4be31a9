// Package cloud is what an upgrade needs of the place its nodes come from: to see a
// node group, and to do to it what package upgrade decides. A folder per cloud
// implements Provider; policy lives in package upgrade and nowhere here.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// Provider sees and changes the node groups of one cluster.
//
// Its methods may be called from several goroutines. Each call ends with its context. A
// request is repeated by the provider only when that can have no second effect.
type Provider interface {
	// Name is "aws", "gke" or "manual".
	Name() string
	// Account says whose credentials are used and where, for people: "account 123456789012,
	// us-east-1".
	Account(ctx context.Context) (string, error)
	// Groups lists the groups that the nodes belong to, by name, without their Wanted being
	// resolved against a target of the user. Groups that must not be driven carry a Refusal.
	Groups(ctx context.Context, nodes []*corev1.Node) ([]nodegroup.Group, error)
	// Observe reads one group again. It returns an error that is ErrNotFound when there is none.
	Observe(ctx context.Context, ref Ref) (nodegroup.Group, error)
	// Belongs tells whether the node is a member of the group as it was observed.
	Belongs(group *nodegroup.Group, node *corev1.Node) bool
	// Outdated judges a member that has no instance in the group.
	Outdated(group *nodegroup.Group, node *corev1.Node) bool
	// Do carries out one action of package upgrade that concerns the cloud: SetRevision, Quiesce,
	// Resume, RaiseMax, LowerMax, AddCapacity, Terminate or, for a managed group, Delegate and CancelOperation. Answers
	// that the caller has to tell apart are an *Error; to cancel an operation that is over is OutcomeMoved.
	Do(ctx context.Context, group string, action nodegroup.Action) error
}

// Surveyor is a Provider whose cloud tells what a plan of an upgrade is closer with.
type Surveyor interface {
	// Survey reads it for a group as it was observed. It asks as little as it can, since only a
	// plan looks at it.
	Survey(ctx context.Context, group *nodegroup.Group) (Survey, error)
}

// Authorizer is a Provider whose cloud says beforehand, at least in part, what the user may do.
type Authorizer interface {
	// AskRights asks what carrying out an upgrade of the group takes, and has no other effect. What
	// gets no answer is unverified.
	AskRights(ctx context.Context, group *nodegroup.Group) Rights
}

// Balancer is a Provider whose cloud has load balancers that send to the machines of its groups, or
// to pods on them.
type Balancer interface {
	// TargetGroups finds the target groups to follow while machines of the group leave: those that
	// the provider puts the machines in itself, and the bound ones, which objects of the cluster
	// name.
	TargetGroups(ctx context.Context, group *nodegroup.Group, bound []string) (TargetGroups, error)
	// Targets reads the targets of the groups. It may leave groups out of which a reading of the
	// last minute knows none of the IDs. A group that is gone has no targets.
	Targets(ctx context.Context, groups []nodegroup.TargetGroup, ids []string) ([]nodegroup.Target, error)
}

// TargetGroups are what Balancer finds.
type TargetGroups struct {
	Groups []nodegroup.TargetGroup
	// Skipped are bound ones that belong to another account, which these credentials cannot read.
	Skipped []string
	// Denied are the actions, as the cloud's policies name them, that reading them takes and the
	// user may not do. There are no Groups then.
	Denied []string
}

// Rights are actions that an upgrade takes, as the cloud's policies name them: those that the user
// may not do, and those that the cloud does not say it of beforehand.
type Rights struct{ Denied, Unverified []string }

// Survey is what a cloud remembers of a group's machines, and the room that it has for more; any of
// it may be missing.
type Survey struct {
	// Launched is when machines of the group were launched, by instance ID.
	Launched map[string]time.Time
	// Terminations are how long machines of the group took from the beginning of their termination
	// to its end, the newest first.
	Terminations []time.Duration
	// Subnets are those that the group's machines are in.
	Subnets []nodegroup.Subnet
}

// Ref names a group and, with To, the revision that is to count as wanted.
type Ref struct {
	Name string
	// To is what the user asked for with --to; empty for what the group's template says, and for a
	// managed group what its cloud would take by itself.
	To string
}

// ErrNotFound is a group that does not exist.
var ErrNotFound = errors.New("no such node group")

// ErrOtherCluster is a name of the cluster by which the cloud knows another one than the nodes are
// of.
var ErrOtherCluster = errors.New("that is not the cloud's name of this cluster")

// Error is an answer of the cloud, sorted.
type Error struct {
	// Outcome is upgrade.OutcomeMoved, OutcomeLater, OutcomeUnclear, OutcomeExhausted or
	// OutcomeFatal.
	Outcome nodegroup.Outcome
	Err     error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cloud's own error.
func (e *Error) Unwrap() error { return e.Err }

// Unsupported is the error for an action that the provider does not know.
func Unsupported(provider string, action nodegroup.Action) error {
	return &Error{Outcome: nodegroup.OutcomeFatal, Err: fmt.Errorf("provider %s cannot %s", provider, action)}
}
