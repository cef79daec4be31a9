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
	// statusNamespace and statusName are where cluster-autoscaler says what it does (its FAQ, "How
	// can I see what Cluster Autoscaler is doing?"), statusUpdated is when it did, in statusTime's
	// form.
	statusNamespace = "kube-system"
	statusName      = "cluster-autoscaler-status"
	statusUpdated   = "cluster-autoscaler.kubernetes.io/last-updated"
	statusTime      = "2006-01-02 15:04:05.999999999 -0700 MST"
	// staleStatus is the age of a status that no autoscaler keeps up any more.
	staleStatus = 15 * time.Minute
)

// groupName finds the names of groups in a status.
var groupName = regexp.MustCompile(`(?m)^[\s-]*[Nn]ame:\s*"?([^\s"]+)`)

// FindAutoscaler looks for a cluster-autoscaler that serves the group: one GET of its status. It
// has to name the group, or the group's tags have to say that it is found by itself (GKE G80).
func FindAutoscaler(ctx context.Context, client kubernetes.Interface, group *nodegroup.Group, now time.Time) nodegroup.Autoscaler {
	found := group.Autoscaler
	status, err := client.CoreV1().ConfigMaps(statusNamespace).Get(ctx, statusName, metav1.GetOptions{})
	if err != nil {
		found.Missing = fmt.Sprintf("cluster-autoscaler's status, ConfigMap %s/%s, could not be read: %v", statusNamespace, statusName, err)
		return found
	}
	found.Missing = findMissing(status, group, now)
	found.Serves = found.Missing == ""
	return found
}

// findMissing says what keeps the status from being evidence that an autoscaler serves the group,
// "" when it is.
func findMissing(status *corev1.ConfigMap, group *nodegroup.Group, now time.Time) string {
	written, err := time.Parse(statusTime, status.Annotations[statusUpdated])
	if err == nil && now.Sub(written) > staleStatus {
		return fmt.Sprintf("cluster-autoscaler wrote its status last at %s", written.UTC().Format(time.RFC3339))
	}
	named := func(m []string) bool { return m[1] == group.Name }
	if group.Autoscaler.Tagged || slices.ContainsFunc(groupName.FindAllStringSubmatch(status.Data["status"], -1), named) {
		return ""
	}
	return fmt.Sprintf("cluster-autoscaler's status, ConfigMap %s/%s, does not name it, and no tag has it found", statusNamespace, statusName)
}
