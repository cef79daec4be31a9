package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

const (
	// statusNamespace and statusName name the ConfigMap in which cluster-autoscaler writes its
	// status (its FAQ, "How can I see what Cluster Autoscaler is doing?"). statusUpdated is the
	// annotation with the time of the last write, in the format statusTime.
	statusNamespace = "kube-system"
	statusName      = "cluster-autoscaler-status"
	statusUpdated   = "cluster-autoscaler.kubernetes.io/last-updated"
	statusTime      = "2006-01-02 15:04:05.999999999 -0700 MST"
	// staleStatus is the age from which a status counts as abandoned.
	staleStatus = 15 * time.Minute
)

// groupName matches the names of groups in a status.
var groupName = regexp.MustCompile(`(?m)^[\s-]*[Nn]ame:\s*"?([^\s"]+)`)

// ReadAutoscaler reads the status of cluster-autoscaler with one GET, and returns whether it serves the group. It does
// if the status names the group, or if the group's tags enable auto-discovery (GKE G80).
func ReadAutoscaler(ctx context.Context, client kubernetes.Interface, group *nodegroup.Group, now time.Time) nodegroup.Autoscaler {
	found := group.Autoscaler
	status, err := client.CoreV1().ConfigMaps(statusNamespace).Get(ctx, statusName, metav1.GetOptions{})
	if err != nil {
		found.Missing = fmt.Sprintf("cluster-autoscaler's status, ConfigMap %s/%s, could not be read: %v", statusNamespace, statusName, err)
		return found
	}
	found.Missing = explainMissing(status, group, now)
	found.Serves = found.Missing == ""
	return found
}

// explainMissing returns why the status does not prove that an autoscaler serves the group, "" if it
// does.
func explainMissing(status *corev1.ConfigMap, group *nodegroup.Group, now time.Time) string {
	written, err := time.Parse(statusTime, status.Annotations[statusUpdated])
	if err == nil && now.Sub(written) > staleStatus {
		return fmt.Sprintf("cluster-autoscaler last wrote its status at %s", written.UTC().Format(time.RFC3339))
	}
	named := func(m []string) bool { return m[1] == group.Name }
	if group.Autoscaler.Tagged || slices.ContainsFunc(groupName.FindAllStringSubmatch(status.Data["status"], -1), named) {
		return ""
	}
	return fmt.Sprintf("cluster-autoscaler's status, ConfigMap %s/%s, does not name it, and no tag makes the autoscaler find it", statusNamespace, statusName)
}
