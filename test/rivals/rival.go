package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// resize is one planned change of the group's size by a rival, and its result.
type resize struct {
	// at is the time since the start of the upgrade.
	at time.Duration
	// change is the planned change of the group's desired size.
	change int
	// respectsAnnotation is true if the rival removes no node with the annotation noScaleDown, as cluster-autoscaler does.
	respectsAnnotation bool

	// applied is the part of change that was made. note gives the reason for the rest.
	applied int
	note    string
}

func (d resize) String() string {
	text := fmt.Sprintf("%+d at %s", d.change, d.at.Round(100*time.Millisecond))
	if d.change < 0 && !d.respectsAnnotation {
		text += " by hand"
	}
	if d.applied != d.change {
		text += fmt.Sprintf(" (%+d landed: %s)", d.applied, d.note)
	}
	return text
}

// drawResizes draws three to five changes for one upgrade, which takes about 15 s. Each change is up to 5.5 s after the previous one.
func drawResizes(seed uint64) []resize {
	random := rand.New(rand.NewPCG(seed, 0))
	resizes := make([]resize, 3+random.IntN(3))
	var at time.Duration
	for i := range resizes {
		at += 500*time.Millisecond + time.Duration(random.Int64N(int64(5*time.Second)))
		change := 1 + random.IntN(2)
		if random.IntN(2) == 0 {
			change = -change
		}
		resizes[i] = resize{at: at, change: change, respectsAnnotation: random.IntN(2) == 0}
	}
	return resizes
}

// noScaleDown is the annotation that keeps cluster-autoscaler from removing a node. deletionTaint is the taint that cluster-autoscaler
// sets on a node before it removes the node.
const (
	noScaleDown   = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	deletionTaint = "ToBeDeletedByClusterAutoscaler"
)

// rival changes the size of one group.
type rival struct {
	*fixture.Fixture
	group string
	cloud *autoscaling.Client
	proxy *proxy
}

func newRival(s *fixture.Fixture, group string, p *proxy) *rival {
	return &rival{Fixture: s, group: group, proxy: p, cloud: autoscaling.New(autoscaling.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Cloud.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKIDRIVAL", "secret", ""),
	})}
}

// applyResizes makes the changes at their times. When the context ends, it skips the remaining changes.
func (r *rival) applyResizes(ctx context.Context, resizes []resize) error {
	began := time.Now()
	for i := range resizes {
		d := &resizes[i]
		select {
		case <-ctx.Done():
			d.note = "the upgrade was over"
			continue
		case <-time.After(d.at - time.Since(began)):
		}
		var err error
		if d.change > 0 {
			err = r.grow(ctx, d)
		} else {
			err = r.shrink(ctx, d)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("changing the size of group %q by %+d: %w", r.group, d.change, err)
		}
	}
	return nil
}

// readGroup reads the group.
func (r *rival) readGroup(ctx context.Context) (at.AutoScalingGroup, error) {
	out, err := r.cloud.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{r.group}})
	if err != nil {
		return at.AutoScalingGroup{}, err
	}
	return out.AutoScalingGroups[0], nil
}

// grow raises the desired size as far as the maximum allows. The upgrade's requests are paused between the read and the write. The API
// has no precondition, so the rival would overwrite a change by the upgrade in between, and no upgrade could prevent that.
func (r *rival) grow(ctx context.Context, d *resize) error {
	defer r.proxy.pause()()
	g, err := r.readGroup(ctx)
	if err != nil {
		return err
	}
	size := int(*g.DesiredCapacity)
	to := min(size+d.change, int(*g.MaxSize))
	if to <= size {
		d.note = fmt.Sprintf("its max is %d", *g.MaxSize)
		return nil
	}
	_, err = r.cloud.SetDesiredCapacity(context.WithoutCancel(ctx), &autoscaling.SetDesiredCapacityInput{
		AutoScalingGroupName: &r.group, DesiredCapacity: aws.Int32(int32(to)),
	})
	if err == nil {
		d.applied, d.note = to-size, fmt.Sprintf("its max is %d", *g.MaxSize)
	}
	return err
}

// shrink removes nodes without pods, one after the other.
func (r *rival) shrink(ctx context.Context, d *resize) error {
	for range -d.change {
		node, err := r.findIdleNode(ctx, d.respectsAnnotation)
		if err != nil || node == nil {
			d.note = "no other node is idle"
			return err
		}
		removed, err := r.removeNode(ctx, node)
		if err != nil {
			return err
		}
		if removed {
			d.applied--
		} else {
			d.note = "the node was taken or is in use"
		}
	}
	return nil
}

// findIdleNode returns a node of the group whose removal would evict no pod, or nil if there is none.
func (r *rival) findIdleNode(ctx context.Context, respectsAnnotation bool) (*corev1.Node, error) {
	nodes, err := r.Cluster.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + r.group})
	if err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		going := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == deletionTaint })
		if going || respectsAnnotation && node.Annotations[noScaleDown] == "true" {
			continue
		}
		if load, err := podsToMove(ctx, r.Fixture, node.Name); err != nil || len(load) == 0 {
			return node, err
		}
	}
	return nil, nil
}

// removeNode taints the node, checks it again, and terminates it and shrinks the group. It returns false if it did not terminate the
// node.
func (r *rival) removeNode(ctx context.Context, node *corev1.Node) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	if tainted, err := r.taintNode(ctx, node); err != nil || !tainted {
		return false, err
	}
	removed, err := r.terminateNode(ctx, node)
	if err == nil && !removed {
		err = r.untaintNode(ctx, node.Name)
	}
	return removed, err
}

// terminateNode terminates the node's machine and shrinks the group. It returns false if the node has pods or is being terminated, or
// if the group has its minimum size.
func (r *rival) terminateNode(ctx context.Context, node *corev1.Node) (bool, error) {
	if load, err := podsToMove(ctx, r.Fixture, node.Name); err != nil || len(load) > 0 {
		return false, err
	}
	defer r.proxy.pause()()
	g, err := r.readGroup(ctx)
	if err != nil {
		return false, err
	}
	id := path.Base(node.Spec.ProviderID)
	there := slices.ContainsFunc(g.Instances, func(i at.Instance) bool { return *i.InstanceId == id && i.LifecycleState == at.LifecycleStateInService })
	if !there || *g.DesiredCapacity <= *g.MinSize {
		return false, nil
	}
	_, err = r.cloud.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{
		InstanceId: &id, ShouldDecrementDesiredCapacity: aws.Bool(true),
	})
	return err == nil, err
}

// taintNode keeps new pods off a node. It returns false if the node has changed since it was read, or is gone.
func (r *rival) taintNode(ctx context.Context, node *corev1.Node) (bool, error) {
	changed := node.DeepCopy()
	changed.Spec.Taints = append(changed.Spec.Taints, corev1.Taint{Key: deletionTaint, Effect: corev1.TaintEffectNoSchedule})
	_, err := r.Cluster.Client().CoreV1().Nodes().Update(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (r *rival) untaintNode(ctx context.Context, name string) error {
	nodes := r.Cluster.Client().CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == deletionTaint })
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// podsToMove lists the pods of a node that would be evicted if the node were removed.
func podsToMove(ctx context.Context, s *fixture.Fixture, node string) ([]string, error) {
	pods, err := s.Cluster.Client().CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	var load []string
	for i := range pods.Items {
		if drain.Judge(&pods.Items[i], drain.Policy{}, false).Fate != drain.Stay {
			load = append(load, pods.Items[i].Name)
		}
	}
	return load, nil
}
