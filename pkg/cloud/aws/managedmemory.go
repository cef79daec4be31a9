package aws

import (
	"cmp"
	"fmt"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// managedMemory is what is known of managed node groups and need not be asked again.
type managedMemory struct {
	mu sync.Mutex // guards all below
	// cluster is the cluster whose nodes Groups was given, "" until it is known; named is the one
	// that the user names.
	cluster, named string
	// autoscaling is the name of the Auto Scaling group, by that of the node group.
	autoscaling map[string]string
	updates     map[managedName]*updateMemory
	// parameters are public SSM parameters; one that does not exist is empty.
	parameters map[string]string
	// control is the Kubernetes version of control planes, by cluster.
	control map[string]string
}

// updateMemory is what is known of a node group's updates. What is over cannot change.
type updateMemory struct {
	running string
	over    map[string]kt.Update
	// forced are those that were begun here with force.
	forced map[string]bool
}

func newManagedMemory(named string) managedMemory {
	return managedMemory{
		named: named, autoscaling: map[string]string{}, updates: map[managedName]*updateMemory{}, parameters: map[string]string{}, control: map[string]string{},
	}
}

// updatesOf is the memory of a node group's updates. The caller has the lock.
func (m *managedMemory) updatesOf(name managedName) *updateMemory {
	if m.updates[name] == nil {
		m.updates[name] = &updateMemory{over: map[string]kt.Update{}, forced: map[string]bool{}}
	}
	return m.updates[name]
}

// remember keeps how an update stands.
func (m *managedMemory) remember(name managedName, u *kt.Update) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, id := m.updatesOf(name), sdk.ToString(u.Id)
	switch {
	case operationState(u.Status) == nodegroup.OperationRunning:
		known.running = id
	default:
		known.over[id] = *u
		if known.running == id {
			known.running = ""
		}
	}
}

// forgetRunning forgets an update that was under way and that EKS tells of no more.
func (m *managedMemory) forgetRunning(name managedName, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.updatesOf(name); known.running == id {
		known.running = ""
	}
}

// newest is the newest update that is over, nil when there is none.
func (m *managedMemory) newest(name managedName) *kt.Update {
	m.mu.Lock()
	defer m.mu.Unlock()
	var newest *kt.Update
	for _, u := range m.updatesOf(name).over {
		if newest == nil || sdk.ToTime(u.CreatedAt).After(sdk.ToTime(newest.CreatedAt)) {
			newest = &u
		}
	}
	return newest
}

// unknown are those of the updates that are not known to be over.
func (m *managedMemory) unknown(name managedName, ids []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, id := range ids {
		if _, over := m.updatesOf(name).over[id]; !over {
			out = append(out, id)
		}
	}
	return out
}

// learnCluster remembers whose nodes the node groups hold. It returns an error where the user names
// another cluster.
func (m *managedMemory) learnCluster(groups []at.AutoScalingGroup) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range groups {
		if name, managed := managedNameOf(&groups[i]); managed {
			m.cluster = name.cluster
		}
	}
	if m.named != "" && m.cluster != "" && m.named != m.cluster {
		return fmt.Errorf("--cluster-name=%s: %w: its nodes are of EKS cluster %s: leave the flag out, or check --context", m.named, cloud.ErrOtherCluster, m.cluster)
	}
	return nil
}

// thisCluster is the cluster whose node groups are meant, "" when it is not known: the one whose
// nodes were listed, which cannot be another's, or else the one that the user names.
func (m *managedMemory) thisCluster() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.cluster, m.named)
}

// autoscalingName is the name of the Auto Scaling group behind a group.
func (m *managedMemory) autoscalingName(group string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.autoscaling[group], group)
}

// rememberGroup keeps the name of the Auto Scaling group behind a node group.
func (m *managedMemory) rememberGroup(name managedName, autoscaling string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.autoscaling[name.nodegroup] = autoscaling
}

// runningUpdate is the ID of the update that was under way when it was looked at last.
func (m *managedMemory) runningUpdate(name managedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.updatesOf(name).running
}

// rememberForce keeps whether an update that was begun here was begun with force.
func (m *managedMemory) rememberForce(name managedName, id string, force bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updatesOf(name).forced[id] = force
}

// isForced reports whether the update was begun here with force.
func (m *managedMemory) isForced(name managedName, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.updatesOf(name).forced[id]
}

// controlVersion is the Kubernetes version of a cluster's control plane, "" until it is known.
func (m *managedMemory) controlVersion(cluster string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.control[cluster]
}

// rememberControl keeps the Kubernetes version of a cluster's control plane.
func (m *managedMemory) rememberControl(cluster, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.control[cluster] = version
}
