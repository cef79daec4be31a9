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

// restartedAt is the annotation of a pod template by which kubectl rollout restart has a Deployment
// bring up new pods (kubectl, pkg/polymorphichelpers/objectrestarter.go).
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// movedPod is the annotation of a Deployment that holds the UID of the pod that its last restart of
// ours moved.
const movedPod = nodemark.Domain + "/moved-pod"

// ReadMovable lists the Deployments and the claims once. It returns an error when they may not be
// listed.
func ReadMovable(ctx context.Context, client kubernetes.Interface) (drain.Movable, error) {
	o, err := ReadObjects(ctx, client, inventory.ForMoves)
	if err != nil {
		return drain.Movable{}, fmt.Errorf("reading what --move=surge may restart: %w", err)
	}
	return drain.NewMovable(o.Deployments, o.Claims), nil
}

// restartDeployment writes a rolling restart once: the Deployment says for which pod, so that one
// who asks again, after a crash or for want of an answer, changes nothing. It returns
// nodegroup.ErrMoved when the Deployment is another one by now, or would leave a gap.
func (w *Writer) restartDeployment(ctx context.Context, a schedule.Restart) error {
	deployments := w.client.AppsV1().Deployments(a.Namespace)
	d, err := deployments.Get(ctx, a.Deployment, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case d.UID != a.UID || drain.WhyGap(d) != "":
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
