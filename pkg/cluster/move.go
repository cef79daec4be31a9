package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain/schedule"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
)

// restartedAt is the annotation of a pod template that kubectl rollout restart sets to replace a
// Deployment's pods (kubectl, pkg/polymorphichelpers/objectrestarter.go).
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// movedPod is the annotation of a Deployment with the UID of the pod for which this program last
// restarted it.
const movedPod = nodemark.Domain + "/moved-pod"

// ReadMovable lists the Deployments and PersistentVolumeClaims once. It returns an error if they
// may not be listed.
func ReadMovable(ctx context.Context, client kubernetes.Interface) (drain.Movable, error) {
	o, err := ReadObjects(ctx, client, inventory.ForMoves)
	if err != nil {
		return drain.Movable{}, fmt.Errorf("reading what --move=surge may restart: %w", err)
	}
	return drain.NewMovable(o.Deployments, o.Claims), nil
}

// restartDeployment starts a rolling restart of the Deployment, once for each pod. An annotation on
// the Deployment names the pod, so a repetition after a crash or a lost answer changes nothing. It
// returns nodegroup.ErrMoved if the Deployment was replaced, or if the restart would leave a gap.
func (w *Writer) restartDeployment(ctx context.Context, a schedule.Restart) error {
	deployments := w.client.AppsV1().Deployments(a.Namespace)
	d, err := deployments.Get(ctx, a.Deployment, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case d.UID != a.UID || drain.WhyRestartGap(d) != "":
		return nodegroup.ErrMoved
	case d.Annotations[movedPod] == string(a.Pod):
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": d.UID, "annotations": map[string]string{movedPod: string(a.Pod)}},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{restartedAt: time.Now().Format(time.RFC3339)},
		}}},
	})
	if err != nil {
		return fmt.Errorf("encoding a restart of Deployment %s/%s: %w", a.Namespace, a.Deployment, err)
	}
	_, err = deployments.Patch(ctx, a.Deployment, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}
