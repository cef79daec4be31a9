package aws

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// managedMemory is what is known of managed node groups and need not be asked again.
type managedMemory struct {
	// named is the cluster that the user names, "" for none.
	named string
	// autoscaling is the name of the Auto Scaling group, by that of the node group.
	autoscaling memory[string, string]
	// updates are as they were seen last; what is over cannot change. forced are those that were
	// begun here with force.
	updates memory[updateKey, kt.Update]
	forced  memory[updateKey, bool]
	// parameters are public SSM parameters; one that does not exist is empty.
	parameters memory[string, string]
	// control is the Kubernetes version of control planes, by cluster.
	control memory[string, string]

	mu sync.Mutex // guards all below
	// cluster is the cluster whose nodes Groups was given, "" until it is known.
	cluster string
}

// updateKey names an update of a node group.
type updateKey struct {
	managedName
	id string
}

func isOver(u kt.Update) bool { return operationState(u.Status) != nodegroup.OperationRunning }

// rememberUpdate keeps how an update stands.
func (m *managedMemory) rememberUpdate(name managedName, u *kt.Update) {
	m.updates.keep(map[updateKey]kt.Update{{name, sdk.ToString(u.Id)}: *u})
}

// listUpdates are the node group's updates that are over, or those that were under way when they
// were looked at last.
func (m *managedMemory) listUpdates(name managedName, over bool) []kt.Update {
	var own []kt.Update
	for key, u := range m.updates.all() {
		if key.managedName == name && isOver(u) == over {
			own = append(own, u)
		}
	}
	return own
}

// newestUpdate is the newest update that is over, nil when there is none.
func (m *managedMemory) newestUpdate(name managedName) *kt.Update {
	over := m.listUpdates(name, true)
	if len(over) == 0 {
		return nil
	}
	newest := slices.MaxFunc(over, func(a, b kt.Update) int { return sdk.ToTime(a.CreatedAt).Compare(sdk.ToTime(b.CreatedAt)) })
	return &newest
}

// unknownUpdates are those of the updates that are not known to be over.
func (m *managedMemory) unknownUpdates(name managedName, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return isOver(m.updates.recall(updateKey{name, id})) })
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
	return cmp.Or(m.autoscaling.recall(group), group)
}
