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

// managedCache caches facts about managed node groups.
type managedCache struct {
	// userCluster is the cluster that the user named, "" for none.
	userCluster string
	// autoscaling contains the names of Auto Scaling groups, by the node group's name.
	autoscaling cache[string, string]
	// updates contains each update as it was last read. An update that has ended cannot change. forced is true for updates that
	// this Provider started with force.
	updates cache[updateKey, kt.Update]
	forced  cache[updateKey, bool]
	// parameters contains public SSM parameters. The value of a parameter that does not exist is empty.
	parameters cache[string, string]
	// controlPlaneVersions contains the Kubernetes versions of control planes, by cluster.
	controlPlaneVersions cache[string, string]

	mu sync.Mutex // guards all below
	// cluster is the cluster of the nodes that Groups was called with, "" until it is known.
	cluster string
}

// updateKey identifies an update of a node group.
type updateKey struct {
	managedName
	id string
}

func hasEnded(u kt.Update) bool { return operationState(u.Status) != nodegroup.OperationRunning }

// rememberUpdate caches an update.
func (m *managedCache) rememberUpdate(name managedName, u *kt.Update) {
	m.updates.add(map[updateKey]kt.Update{{name, sdk.ToString(u.Id)}: *u})
}

// listUpdates lists the node group's updates that have ended. If ended is false, it lists the updates that were running when
// they were last read.
func (m *managedCache) listUpdates(name managedName, ended bool) []kt.Update {
	var own []kt.Update
	for key, u := range m.updates.snapshot() {
		if key.managedName == name && hasEnded(u) == ended {
			own = append(own, u)
		}
	}
	return own
}

// newestEndedUpdate returns the newest update that has ended, nil if there is none.
func (m *managedCache) newestEndedUpdate(name managedName) *kt.Update {
	ended := m.listUpdates(name, true)
	if len(ended) == 0 {
		return nil
	}
	newest := slices.MaxFunc(ended, func(a, b kt.Update) int { return sdk.ToTime(a.CreatedAt).Compare(sdk.ToTime(b.CreatedAt)) })
	return &newest
}

// updatesToRead returns the updates among ids that must be read, because they are not known to have ended.
func (m *managedCache) updatesToRead(name managedName, ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { return hasEnded(m.updates.get(updateKey{name, id})) })
}

// learnCluster remembers the cluster that the node groups belong to. It returns an error if the
// user named another cluster.
func (m *managedCache) learnCluster(groups []at.AutoScalingGroup) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range groups {
		if name, managed := managedNameOf(&groups[i]); managed {
			m.cluster = name.cluster
		}
	}
	if m.userCluster != "" && m.cluster != "" && m.userCluster != m.cluster {
		return fmt.Errorf("--cluster-name=%s: %w: its nodes belong to EKS cluster %s: remove the flag, or check --context", m.userCluster, cloud.ErrOtherCluster, m.cluster)
	}
	return nil
}

// thisCluster returns the cluster whose node groups are used, "" if it is not known. The cluster of the listed nodes takes
// precedence over the name from the user.
func (m *managedCache) thisCluster() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.cluster, m.userCluster)
}

// autoscalingGroupName returns the name of the Auto Scaling group of a managed node group. For any other name it returns the
// name itself.
func (m *managedCache) autoscalingGroupName(group string) string {
	return cmp.Or(m.autoscaling.get(group), group)
}
