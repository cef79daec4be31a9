package karpenter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// layout is a NodePool with workloads, of which each pod has a node of its own.
type layout struct {
	pool string
	// budgets are the NodePool's, in YAML.
	budgets func(now time.Time) string
	apps    []app
	// prepare is called before the pool drifts. It returns the nodes and pods that it made Karpenter keep.
	prepare func(c *cluster, l *layout) []string
	// code is the exit code of the status when Karpenter does nothing more. left is how many nodes it leaves.
	code, left int
}

// app is a Deployment.
type app struct {
	name     string
	replicas int
	// grace is how long its pods take to end. unavailable is its budget's maxUnavailable, "" for no budget.
	grace       int
	unavailable string
	annotation  string
}

func (l *layout) count() int {
	n := 0
	for _, a := range l.apps {
		n += a.replicas
	}
	return n
}

// manifests returns the objects of the layout with the image as a label of its nodes.
func (l *layout) manifests(image string, now time.Time) string {
	text := fmt.Sprintf(`
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  template:
    metadata: {labels: {image: %[2]s}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      taints: [{key: pool, value: %[1]s, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [c-4x-amd64-linux]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: %[3]s}
`, l.pool, image, l.budgets(now))
	for _, a := range l.apps {
		text += fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s-%[2]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s-%[2]s}}
  template:
    metadata: {labels: {app: %[1]s-%[2]s}, annotations: {%[5]s}}
    spec:
      terminationGracePeriodSeconds: %[4]d
      tolerations: [{key: pool, value: %[1]s}]
      nodeSelector: {karpenter.sh/nodepool: %[1]s}
      containers: [{name: c, image: registry.example/app, resources: {requests: {cpu: 2500m}}}]
`, l.pool, a.name, a.replicas, a.grace, a.annotation)
		if a.unavailable != "" {
			text += fmt.Sprintf(`---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s-%[2]s}
spec: {maxUnavailable: %[3]s, selector: {matchLabels: {app: %[1]s-%[2]s}}}
`, l.pool, a.name, a.unavailable)
		}
	}
	return text
}

func always(budgets string) func(time.Time) string { return func(time.Time) string { return budgets } }

// layouts returns the NodePools that Karpenter rolls out at the same time.
func layouts() []*layout {
	return []*layout{
		{pool: "one", budgets: always(`[{nodes: "1"}]`), apps: []app{{name: "web", replicas: 6, grace: 5, unavailable: "1"}}},
		{pool: "three", budgets: always(`[{nodes: "3"}]`), apps: []app{{name: "web", replicas: 5, grace: 5, unavailable: "1"}, {name: "api", replicas: 4, grace: 2}}},
		{pool: "share", budgets: always(`[{nodes: 25%}, {nodes: "0", reasons: [Empty]}]`), apps: []app{{name: "web", replicas: 8, grace: 3, unavailable: "25%"}}},
		{
			pool: "later", apps: []app{{name: "web", replicas: 3, grace: 2, unavailable: "1"}},
			budgets: func(now time.Time) string { // closed until the end of the next minute
				now = now.UTC()
				return fmt.Sprintf(`[{nodes: "1"}, {nodes: "0", schedule: "%d %d * * *", duration: 2m}]`, now.Minute(), now.Hour())
			},
		},
		{
			pool: "kept", budgets: always(`[{nodes: "2"}]`), code: 1, left: 2,
			apps: []app{{name: "web", replicas: 4, grace: 2, unavailable: "1"}, {name: "job", replicas: 1, grace: 2, annotation: `karpenter.sh/do-not-disrupt: "true"`}},
			prepare: func(c *cluster, l *layout) []string {
				pod := firstOf(c.must("get", "pods", "-l", "app=kept-job", "-o", "name"))
				node := c.must("get", "pods", "-l", "app=kept-web", "-o", "jsonpath={.items[0].spec.nodeName}")
				c.must("annotate", "node", node, "karpenter.sh/do-not-disrupt=true")
				return []string{strings.TrimPrefix(pod, "pod/"), node}
			},
		},
		{
			pool: "closed", budgets: always(`[{nodes: "2"}]`), code: 1, left: 2,
			apps: []app{{name: "web", replicas: 4, grace: 2}, {name: "db", replicas: 2, grace: 2, unavailable: "0"}},
			prepare: func(*cluster, *layout) []string {
				return []string{"closed-db"}
			},
		},
	}
}

func firstOf(lines string) string { return strings.Fields(lines)[0] }

// TestStatusForecastsRollouts lets Karpenter replace the drifted nodes of several NodePools at the same time. In each it checks that the
// measured time is in the range of the first forecast, that whatever keeps a node is named within ten seconds, and that the exit code
// tells when Karpenter goes no further.
func TestStatusForecastsRollouts(t *testing.T) {
	c := startCluster(t)
	all := layouts()
	for _, l := range all {
		l := *l
		l.budgets = always(`[{nodes: "0"}]`)
		c.apply(l.manifests("v1", time.Now()))
	}
	for _, l := range all {
		c.waitFor(fmt.Sprintf("%d nodes of %s", l.count(), l.pool), 2*time.Minute, func() bool { return c.countNodes(l.pool, "v1") == l.count() })
		for _, a := range l.apps {
			c.must("rollout", "status", "deployment", l.pool+"-"+a.name, "--timeout=2m")
		}
		if s, code := c.status(l.pool); code != 0 || s.Run != "" {
			t.Errorf("%s has not drifted, and its status is %+v with exit code %d", l.pool, s, code)
		}
	}
	for _, l := range all {
		t.Run(l.pool, func(t *testing.T) {
			own := *c
			own.t = t
			own.checkRollout(l)
		})
	}
}

// checkRollout makes the pool of a layout drift and follows it.
func (c *cluster) checkRollout(l *layout) {
	c.t.Parallel()
	var kept []string
	if l.prepare != nil {
		kept = l.prepare(c, l)
	}
	c.apply(l.manifests("v2", time.Now()))
	began := time.Now()
	var first status
	c.waitFor("the drift", 30*time.Second, func() bool { first, _ = c.status(l.pool); return first.Run != "" })
	forecast := time.Now()
	c.t.Logf("after %s: %+v", time.Since(began).Round(time.Millisecond), first)
	for _, name := range kept {
		c.waitFor(name+" in the status", time.Until(began.Add(10*time.Second)), func() bool { s, _ := c.status(l.pool); return s.names(name) })
	}
	goesOn := func() bool { _, code := c.status(l.pool); return code == 6 }
	c.waitFor("the end", 4*time.Minute, func() bool { return !goesOn() && c.countNodes(l.pool, "v1") == l.left })
	took := time.Since(forecast)
	last, code := c.status(l.pool)
	c.t.Logf("took %s, ended with %d: %+v", took.Round(time.Millisecond), code, last)
	if code != l.code || c.countNodes(l.pool, "v2") != l.count()-l.left {
		c.t.Errorf("exit code %d, %d new nodes; want %d, %d", code, c.countNodes(l.pool, "v2"), l.code, l.count()-l.left)
	}
	if l.left > 0 {
		if first.RemainingUnknown == "" || len(last.Blocked) == 0 {
			c.t.Errorf("the status knows when it ends (%+v), or does not name what keeps the nodes (%+v)", first.Remaining, last.Blocked)
		}
		return
	}
	earliest, err1 := time.ParseDuration(first.Remaining.Earliest)
	latest, err2 := time.ParseDuration(first.Remaining.Latest)
	if err1 != nil || err2 != nil || took < earliest || took > latest {
		c.t.Errorf("it took %s, and the forecast was %+v %s", took, first.Remaining, first.RemainingUnknown)
	}
}

// names reports whether a node, pod or budget of that name is shown as what keeps a node.
func (s *status) names(name string) bool {
	return slices.ContainsFunc(s.Blocked, func(b struct {
		Node, Kind, Detail string
		Pod                struct{ Namespace, Name string }
		Budget             struct{ Namespace, Name string }
	},
	) bool {
		return b.Node == name || b.Pod.Name == name || b.Budget.Name == name
	})
}
