package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// ControllerReader reads how many pods workloads should have, and why pods cannot be created.
type ControllerReader struct {
	client kubernetes.Interface
	now    func() time.Time
}

// NewControllerReader returns a ControllerReader. now is the API server's clock, which also dates events.
func NewControllerReader(client kubernetes.Interface, now func() time.Time) *ControllerReader {
	return &ControllerReader{client, now}
}

// ReadController reads the controller of a workload. If that fails, the result's Unread is the reason.
func (r *ControllerReader) ReadController(ctx context.Context, w drain.Workload) drain.Controller {
	read, err := r.readScale(ctx, w)
	if apierrors.IsNotFound(err) && w.Kind == "Deployment" {
		read, err = r.readOrphans(ctx, w)
	}
	switch {
	case apierrors.IsNotFound(err):
		return drain.Controller{}
	case err != nil:
		return drain.Controller{Unread: fmt.Sprintf("reading its controller: %v: get that permission, or pass --ignore-unready", err)}
	case read.Refused == "":
		read.Refused = r.findFailedCreate(ctx, w)
	}
	return read
}

// readScale reads the controller's scale, and the condition that explains why its pods cannot be created.
func (r *ControllerReader) readScale(ctx context.Context, w drain.Workload) (drain.Controller, error) {
	apps, get := r.client.AppsV1(), metav1.GetOptions{}
	switch w.Kind {
	case "Deployment":
		d, err := apps.Deployments(w.Namespace).Get(ctx, w.Name, get)
		if err != nil {
			return drain.Controller{}, err
		}
		return drain.Controller{Replicas: replicasOrDefault(d.Spec.Replicas), Refused: refusalOfDeployment(d)}, nil
	case "ReplicaSet":
		s, err := apps.ReplicaSets(w.Namespace).Get(ctx, w.Name, get)
		if err != nil {
			return drain.Controller{}, err
		}
		return drain.Controller{Replicas: replicasOrDefault(s.Spec.Replicas), Refused: refusalOfReplicaSet(s)}, nil
	case "StatefulSet":
		s, err := apps.StatefulSets(w.Namespace).Get(ctx, w.Name, get)
		if err != nil {
			return drain.Controller{}, err
		}
		read := drain.Controller{Replicas: replicasOrDefault(s.Spec.Replicas), Ordered: s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement}
		if s.Spec.Ordinals != nil {
			read.First = int(s.Spec.Ordinals.Start)
		}
		return read, nil
	case "ReplicationController":
		c, err := r.client.CoreV1().ReplicationControllers(w.Namespace).Get(ctx, w.Name, get)
		if err != nil {
			return drain.Controller{}, err
		}
		return drain.Controller{Replicas: replicasOrDefault(c.Spec.Replicas)}, nil
	case "DaemonSet":
		return r.readDaemonSet(ctx, w)
	default:
		return drain.Controller{Unread: "controllers of the kind " + w.Kind + " are not read"}, nil
	}
}

// readOrphans reads the ReplicaSets of a Deployment that was deleted without them (kubectl delete --cascade=orphan). They
// continue to create pods.
func (r *ControllerReader) readOrphans(ctx context.Context, w drain.Workload) (drain.Controller, error) {
	found, err := r.client.AppsV1().ReplicaSets(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return drain.Controller{}, err
	}
	var read drain.Controller
	for i := range found.Items {
		s := &found.Items[i]
		if s.Name == w.Name+"-"+s.Labels[appsv1.DefaultDeploymentUniqueLabelKey] && metav1.GetControllerOfNoCopy(s) == nil {
			read.Replicas += replicasOrDefault(s.Spec.Replicas)
			read.Refused = cmp.Or(read.Refused, refusalOfReplicaSet(s))
		}
	}
	return read, nil
}

// refusalOfDeployment returns why the Deployment's pods cannot be created, "" if they can.
func refusalOfDeployment(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func refusalOfReplicaSet(s *appsv1.ReplicaSet) string {
	for _, c := range s.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// readDaemonSet reads how many of a DaemonSet's pods were not created. It uses a list request, as plans do, so it needs no other
// permission.
func (r *ControllerReader) readDaemonSet(ctx context.Context, w drain.Workload) (drain.Controller, error) {
	own := fields.OneTermEqualSelector(metav1.ObjectNameField, w.Name).String()
	found, err := r.client.AppsV1().DaemonSets(w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: own})
	if err != nil || len(found.Items) == 0 {
		return drain.Controller{}, err
	}
	s := &found.Items[0].Status
	return drain.Controller{Replicas: int(s.DesiredNumberScheduled), Uncreated: max(0, int(s.DesiredNumberScheduled-s.CurrentNumberScheduled))}, nil
}

// replicasOrDefault returns a controller's scale, which is 1 by default.
func replicasOrDefault(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

// failureAge is the maximum age of an event that explains why a pod could not be created. Controllers try less and less often.
const failureAge = 20 * time.Minute

// findFailedCreate returns the message of the newest event that explains why the workload's pods cannot be created. It returns ""
// if there is none, or events may not be listed.
func (r *ControllerReader) findFailedCreate(ctx context.Context, w drain.Workload) string {
	events, err := r.client.CoreV1().Events(w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": w.Kind, "involvedObject.name": w.Name, "reason": "FailedCreate",
	}.String()})
	if err != nil {
		return ""
	}
	why, newest := "", r.now().Add(-failureAge)
	for i := range events.Items {
		e := &events.Items[i]
		at := e.LastTimestamp.Time
		if at.IsZero() {
			at = e.EventTime.Time
		}
		if e.Type == corev1.EventTypeWarning && at.After(newest) {
			why, newest = e.Message, at
		}
	}
	return why
}
