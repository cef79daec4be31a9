package stage

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// Binding is a TargetGroupBinding: a target group that has the nodes or the pods with a label as its targets.
type Binding struct {
	Name, TargetGroup string
	// Nodes selects nodes, Pods pods of the stage's namespace that are targets by their addresses; one of them is empty.
	Nodes, Pods string
}

const bindingKind = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"targetgroupbindings.elbv2.k8s.aws",
"annotations":{"api-approved.kubernetes.io":"unapproved, a test's own copy"}},"spec":{"group":"elbv2.k8s.aws","scope":"Namespaced",
"names":{"kind":"TargetGroupBinding","plural":"targetgroupbindings"},"versions":[{"name":"v1beta1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// AddBindings makes TargetGroupBindings and keeps their targets as the AWS Load Balancer Controller does, until the context ends or a
// request fails; the returned function waits for that and says how it ended.
func (s *Stage) AddBindings(ctx context.Context, bindings ...Binding) (join func() error, err error) {
	if err := s.post(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", bindingKind); err != nil {
		return nil, fmt.Errorf("creating the kind TargetGroupBinding: %w", err)
	}
	for _, b := range bindings {
		if err := s.addBinding(ctx, b); err != nil {
			return nil, fmt.Errorf("creating TargetGroupBinding %q: %w", b.Name, err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- s.keepTargets(ctx, bindings) }()
	return func() error { return <-ended }, nil
}

func (s *Stage) post(ctx context.Context, path, body string) error {
	request := s.Cluster.Client().CoreV1().RESTClient().Post().AbsPath(path).SetHeader("Content-Type", "application/json")
	return request.Body([]byte(body)).Do(ctx).Error()
}

// addBinding creates the object; the API server needs a moment to know the kind.
func (s *Stage) addBinding(ctx context.Context, b Binding) error {
	kind := "instance"
	if b.Pods != "" {
		kind = "ip"
	}
	body := fmt.Sprintf(`{"apiVersion":"elbv2.k8s.aws/v1beta1","kind":"TargetGroupBinding","metadata":{"name":%q},"spec":{"targetGroupARN":%q,"targetType":%q,"serviceRef":{"name":%q,"port":80}}}`,
		b.Name, b.TargetGroup, kind, b.Name)
	path := "/apis/elbv2.k8s.aws/v1beta1/namespaces/" + s.Namespace + "/targetgroupbindings"
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, StartupLimit, true, func(ctx context.Context) (bool, error) {
		last = s.post(ctx, path, body)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// keepTargets registers and deregisters targets until the context ends.
func (s *Stage) keepTargets(ctx context.Context, bindings []Binding) error {
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		for _, b := range bindings {
			if err := s.keepTargetsOf(ctx, b); err != nil {
				return false, fmt.Errorf("keeping the targets of %q: %w", b.Name, err)
			}
		}
		return false, nil
	})
	if ctx.Err() == nil {
		return err
	}
	return nil // it was to end
}

func (s *Stage) keepTargetsOf(ctx context.Context, b Binding) error {
	list := s.nodeTargets
	if b.Pods != "" {
		list = s.podTargets
	}
	wanted, err := list(ctx, b)
	if err != nil {
		return err
	}
	registered := s.Cloud.Targets(b.TargetGroup)
	for _, id := range wanted {
		if !slices.Contains(registered, id) {
			if err := s.Cloud.RegisterTarget(b.TargetGroup, id); err != nil {
				return err
			}
		}
	}
	for _, id := range registered {
		if !slices.Contains(wanted, id) {
			if err := s.Cloud.DeregisterTarget(b.TargetGroup, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodeTargets are the instances of the nodes without the label that takes them out.
func (s *Stage) nodeTargets(ctx context.Context, b Binding) ([]string, error) {
	nodes, err := s.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: b.Nodes + ",!" + corev1.LabelNodeExcludeBalancers})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range nodes.Items {
		if id := instanceOf(&nodes.Items[i]); id != "" && takesPods(&nodes.Items[i]) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// instanceOf is the instance behind a node.
func instanceOf(node *corev1.Node) string {
	id := node.Spec.ProviderID
	for i := len(id) - 1; i >= 0; i-- {
		if id[i] == '/' {
			return id[i+1:]
		}
	}
	return id
}

// podTargets are the addresses of ready pods that are not about to end.
func (s *Stage) podTargets(ctx context.Context, b Binding) ([]string, error) {
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: b.Pods})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; drain.Ready(pod) && pod.DeletionTimestamp == nil && pod.Status.PodIP != "" {
			ids = append(ids, pod.Status.PodIP)
		}
	}
	return ids, nil
}
