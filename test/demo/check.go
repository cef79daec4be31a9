package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// snapshot is the state before the upgrade.
type snapshot struct {
	size  awscloud.GroupStatus
	moves map[types.UID]string // pods that must leave an outdated node
	pods  map[string]int       // ready pods of each workload, except the DaemonSet
}

func takeSnapshot(ctx context.Context, s *fixture.Fixture) (*snapshot, error) {
	p := &snapshot{moves: map[types.UID]string{}}
	var err error
	if p.size, err = s.Cloud.Group(group); err != nil {
		return nil, err
	}
	pods, err := s.Cluster.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; drain.Judge(pod, drain.Policy{}, false).Fate == drain.Go {
			p.moves[pod.UID] = pod.Name
		}
	}
	p.pods = readyPods(pods.Items)
	return p, nil
}

func readyPods(pods []corev1.Pod) map[string]int {
	ready := map[string]int{}
	for i := range pods {
		if pod := &pods[i]; drain.OwnerKind(pod) != "DaemonSet" && drain.Ready(pod) && pod.DeletionTimestamp == nil {
			ready[pod.Labels["app"]]++
		}
	}
	return ready
}

// compare prints the results of the checks and returns an error that names the failed ones.
func (p *snapshot) compare(ctx context.Context, s *fixture.Fixture, broken []string, seen int) error {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if !ok {
			wrong = append(wrong, line)
			line = "NOT SO: " + line
		}
		fmt.Println(line)
	}
	fmt.Println("\nChecked:")
	if err := s.Settle(ctx); err != nil {
		wrong = append(wrong, err.Error())
	}
	after, err := s.Cloud.Group(group)
	if err != nil {
		return err
	}
	check(after.Desired == p.size.Desired && after.Max == p.size.Max && fmt.Sprint(after.Zones) == fmt.Sprint(p.size.Zones),
		"- the group's size is as before: desired %d, max %d, zones %v", after.Desired, after.Max, after.Zones)
	check(slices.Equal(after.Suspended, p.size.Suspended), "- its suspended processes are as before: %v", after.Suspended)
	if err := p.compareNodes(ctx, s, check); err != nil {
		return err
	}
	if err := p.compareEvictions(ctx, s, check); err != nil {
		return err
	}
	check(len(broken) == 0, "- no budget had fewer healthy pods than it needs, in any of the %d states seen: %d", seen, len(broken))
	if len(wrong) > 0 {
		return fmt.Errorf("%d checks failed: %s", len(wrong), strings.Join(wrong, "; "))
	}
	return nil
}

func (p *snapshot) compareNodes(ctx context.Context, s *fixture.Fixture, check func(bool, string, ...any)) error {
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return err
	}
	current, clean := 0, 0
	for i := range nodes {
		if nodes[i].Labels["image"] == fixture.NewImage {
			current++
		}
		if !nodes[i].Spec.Unschedulable && len(nodes[i].Spec.Taints) == 0 {
			clean++
		}
	}
	check(current == len(nodes) && len(nodes) == p.size.Desired, "- %d of %d nodes are current", current, len(nodes))
	check(clean == len(nodes), "- %d of %d nodes are neither tainted nor cordoned", clean, len(nodes))
	return nil
}

func (p *snapshot) compareEvictions(ctx context.Context, s *fixture.Fixture, check func(bool, string, ...any)) error {
	pods, err := s.Cluster.Client().CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	now := readyPods(pods.Items)
	check(fmt.Sprint(now) == fmt.Sprint(p.pods), "- no pod was lost: %v are ready", now)
	evictions, err := s.Evictions(ctx)
	if err != nil {
		return err
	}
	once, others := 0, 0
	for uid, times := range evictions.Accepted {
		if _, had := p.moves[uid]; had && times == 1 {
			once++
		} else {
			others++
		}
	}
	check(once == len(p.moves) && others == 0, "- %d pods had to move: %d were evicted exactly once, %d other evictions", len(p.moves), once, others)
	check(evictions.Refused*50 <= evictions.Calls, "- %d of %d eviction calls were answered 429", evictions.Refused, evictions.Calls)
	return nil
}
