package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// stateSpace is the default namespace for the records of upgrades.
const stateSpace = "kube-system"

// newFixture starts the control plane and the cloud that all scenarios share. Machines take some time to boot and to terminate.
func newFixture(ctx context.Context) (*fixture.Fixture, error) {
	return fixture.New(ctx, fixture.Options{
		Cloud: awscloud.Options{
			Boot: 11 * time.Second, NodeReady: time.Second, Terminate: 5 * time.Second, NodeGoneAfter: time.Second,
			// The plan uses EKS's own limits, which no flag changes.
			EKS: awscloud.EKSOptions{DrainLimit: 15 * time.Minute, Settle: time.Minute, NodeLimit: 5 * time.Minute},
		},
		// The scenarios keep two cores busy, and a late heartbeat must not make a node NotReady.
		Cluster: controlplane.Options{NodeMonitorGrace: time.Minute},
	})
}

// runScenario sets up the scenario, plans the upgrade, runs it, and returns the prediction and the measurement.
func runScenario(ctx context.Context, shared *fixture.Fixture, sc *scenario) (outcome, error) {
	s, err := shared.InNamespace(ctx, sc.group())
	if err != nil {
		return outcome{}, err
	}
	if sc.pool != nil {
		cloud, err := sc.startGKE(ctx, s)
		if err != nil {
			return outcome{}, err
		}
		defer cloud.Stop()
	} else if err := sc.setUp(ctx, s); err != nil {
		return outcome{}, err
	}
	if err := sc.deletePod(ctx, s); err != nil {
		return outcome{}, err
	}
	plan, err := predict(ctx, s, sc)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{name: sc.name, random: sc.random, managed: sc.isByCloud(), span: plan.Duration}
	o.predicted = figures{took: plan.Duration.Latest.Duration, evictions: *plan.Evictions}
	if plan.Ends != nil {
		o.predicted.result = plan.Ends.Slow.Result
	}
	var starts []nodeStart
	for _, n := range plan.Nodes {
		if n.Start != nil {
			starts = append(starts, nodeStart{n.Name, n.Start.Earliest.Duration})
		}
	}
	o.predicted.order = startOrder(starts)
	if err := sc.deletePod(ctx, s); err != nil {
		return outcome{}, err
	}
	o.measured, err = measure(ctx, s, sc)
	return o, err
}

// predict returns the plan that --dry-run prints.
func predict(ctx context.Context, s *fixture.Fixture, sc *scenario) (*report.Plan, error) {
	var out, errOut bytes.Buffer
	code, err := s.Start(ctx, &out, &errOut, sc.env, sc.args("--dry-run", "-o", "json")...).Wait()
	if err != nil {
		return nil, err
	}
	if err := sc.storeOutput(".plan.json", out.Bytes()); err != nil {
		return nil, err
	}
	plan := &report.Plan{}
	if err := json.Unmarshal(out.Bytes(), plan); err != nil {
		return nil, fmt.Errorf("reading the plan: %w: kubectl ended with %d: %s", err, code, errOut.String())
	}
	return plan, nil
}

// measure runs the upgrade. It takes the time from the record, the evictions from the audit log, and the order of nodes from the
// events.
func measure(ctx context.Context, s *fixture.Fixture, sc *scenario) (figures, error) {
	var out, progress bytes.Buffer
	code, err := s.Start(ctx, &out, &progress, sc.env, sc.args("--yes", "--parallel-groups", "--progress=json")...).Wait()
	if err != nil {
		return figures{}, err
	}
	if code != sc.code {
		return figures{}, fmt.Errorf("the upgrade ended with %d, not with %d: %s", code, sc.code, progress.String())
	}
	if err := sc.storeOutput(".events.json", progress.Bytes()); err != nil {
		return figures{}, err
	}
	rec, err := cluster.NewStore(s.Cluster.Client(), stateSpace, sc.groupName()).LoadRecord(ctx)
	if err != nil {
		return figures{}, err
	}
	evictions, err := countEvictions(ctx, s, sc.isByCloud())
	if err != nil {
		return figures{}, err
	}
	return figures{took: rec.Ended.Sub(rec.Started), evictions: evictions, order: startOrder(parseNodeStarts(progress.String())), result: record.Result(report.KebabCase(string(rec.Result)))}, nil
}

// countEvictions counts the accepted evictions: those by the cloud if byCloud is true, otherwise those by the plugin.
func countEvictions(ctx context.Context, s *fixture.Fixture, byCloud bool) (int, error) {
	if !byCloud {
		ours, err := s.Evictions(ctx)
		return len(ours.Accepted), err
	}
	events, err := s.Cluster.AuditEvents(ctx)
	n := 0
	for _, e := range events {
		if e.IsEviction() && !e.IsDryRun() && e.ObjectRef.Namespace == s.Namespace && e.ResponseStatus.Code == http.StatusCreated {
			n++
		}
	}
	return n, err
}

// parseNodeStarts returns the starts of the nodes, from the events of an upgrade. A node starts with its first event, unless that event
// says that the node is gone.
func parseNodeStarts(progress string) []nodeStart {
	var starts []nodeStart
	var first time.Time
	seen := map[string]bool{}
	for line := range strings.Lines(progress) {
		var e struct {
			Time time.Time `json:"time"`
			report.Event
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Type != "node" || seen[e.Node] || e.State == report.KebabCase(string(record.NodeGone)) {
			continue
		}
		if first.IsZero() {
			first = e.Time
		}
		seen[e.Node] = true
		starts = append(starts, nodeStart{e.Node, e.Time.Sub(first)})
	}
	return starts
}

// setUp creates the group and its workloads. For a group without a cloud it also creates the current nodes.
func (sc *scenario) setUp(ctx context.Context, s *fixture.Fixture) error {
	var err error
	if sc.usesCloud() {
		err = sc.launchGroup(ctx, s)
	} else {
		old := sc.newPool("old", zoneA, zoneB)
		old.More = sc.oldResources
		err = s.AddPool(ctx, old)
	}
	if err != nil {
		return err
	}
	if err := s.AwaitNodes(ctx, sc.selector(), sc.nodes); err != nil {
		return err
	}
	for _, w := range sc.workloads {
		w.NodeSelector = map[string]string{"pool": sc.group()}
		if err := s.Add(ctx, w); err != nil {
			return err
		}
	}
	if err := s.Settle(ctx); err != nil || sc.usesCloud() {
		return err
	}
	current := sc.newPool("new", cmp.Or(sc.newZone, zoneA), cmp.Or(sc.newZone, zoneB))
	current.Nodes, current.More, current.CPU = sc.nodes-sc.missingNewNodes, sc.newResources, sc.newCPU
	if err := s.AddPool(ctx, current); err != nil {
		return err
	}
	if err := s.AwaitNodes(ctx, sc.selector(), 2*sc.nodes-sc.missingNewNodes); err != nil {
		return err
	}
	if err := sc.addSilentWebhook(ctx, s); err != nil {
		return err
	}
	return sc.addPlaceholders(ctx, s)
}

// addSilentWebhook adds a webhook with failurePolicy Fail whose Service does not exist. It is called only in the scenario's namespace.
func (sc *scenario) addSilentWebhook(ctx context.Context, s *fixture.Fixture) error {
	if sc.silentWebhook == "" {
		return nil
	}
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	config := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: sc.group()}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "silent.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
		ClientConfig:      admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: s.Namespace, Name: "gone"}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{sc.silentWebhook}},
		}},
	}}}
	if _, err := s.Cluster.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, config, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the webhook: %w", err)
	}
	return nil
}

// addPlaceholders creates pods on the current nodes with a lower priority than all other pods, and waits until they run.
func (sc *scenario) addPlaceholders(ctx context.Context, s *fixture.Fixture) error {
	if len(sc.placeholders) == 0 {
		return nil
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: sc.group()}, Value: -10}
	if _, err := s.Cluster.Client().SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the priority of placeholders: %w", err)
	}
	for _, w := range sc.placeholders {
		w.NodeSelector = map[string]string{"pool": sc.group(), "image": "new"}
		w.Change = func(spec *corev1.PodSpec) { spec.PriorityClassName = sc.group() }
		if err := s.Add(ctx, w); err != nil {
			return err
		}
	}
	return s.Settle(ctx)
}

// deletePod waits until all pods are running, and deletes the scenario's deletedPod, if it has one.
func (sc *scenario) deletePod(ctx context.Context, s *fixture.Fixture) error {
	if sc.deletedPod == "" {
		return nil
	}
	if err := s.Settle(ctx); err != nil {
		return err
	}
	if err := s.Cluster.Client().CoreV1().Pods(s.Namespace).Delete(ctx, sc.deletedPod, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", sc.deletedPod, err)
	}
	return nil
}

// newPool describes the scenario's nodes without a cloud. The nodes are distributed over the zones.
func (sc *scenario) newPool(image string, zones ...string) fixture.Pool {
	return fixture.Pool{Name: sc.group(), Image: image, Nodes: sc.nodes, Zones: zones}
}

// launchGroup launches a group of nodes of the older version in the cloud, and shrinks it by one. The plan then knows how long the
// nodes took to boot, and how long one took to leave.
func (sc *scenario) launchGroup(ctx context.Context, s *fixture.Fixture) error {
	scaling, err := sc.addGroup(s)
	if err != nil {
		return err
	}
	if err := s.AwaitNodes(ctx, sc.selector(), sc.nodes+1); err != nil {
		return err
	}
	if err := s.Cloud.SetDesired(scaling, sc.nodes); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, fixture.StartupLimit)
	defer stop()
	return s.Cloud.WaitForGroup(ctx, scaling, func(g awscloud.GroupStatus) bool { return len(g.Instances) == sc.nodes })
}

// addGroup adds a group with one node more than the scenario has, and returns the name of its Auto Scaling group.
func (sc *scenario) addGroup(s *fixture.Fixture) (string, error) {
	sized := func(spec *awscloud.GroupSpec) { spec.Desired, spec.Max, spec.Min = sc.nodes+1, sc.nodes+1, 0 }
	if sc.managed {
		return s.AddManagedGroup(fixture.ManagedGroup{
			Name: sc.group(), Zones: sc.zones, MaxUnavailable: sc.width, Strategy: sc.strategy,
			More: func(spec *awscloud.NodegroupSpec) { sized(&spec.Group) },
		})
	}
	return sc.group(), s.AddGroup(fixture.Group{
		Name: sc.group(), Zones: sc.zones, Version: "1", Max: sc.nodes, Suspended: []string{"AZRebalance"}, More: sized,
	})
}
