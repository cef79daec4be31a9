package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// Evictions is what the audit log says of the plugin's evictions in the namespace, or in all when it is ""; dry runs are left out.
type Evictions struct {
	// Accepted counts, by pod UID, evictions that the API server carried out.
	Accepted map[types.UID]int
	// CutOff counts, by pod UID, those whose caller went away before the answer: the API server may have carried them out.
	CutOff map[types.UID]int
	// Calls counts all of them, Refused those answered 429.
	Calls, Refused int
}

// Ours reports whether the request is the plugin's.
func Ours(e controlplane.Event) bool {
	return strings.HasPrefix(e.UserAgent, "kubectl-nodeupgrade") || strings.Contains(e.UserAgent, " "+cluster.FieldManager)
}

// Evictions reads the audit log.
func (s *Stage) Evictions(ctx context.Context) (Evictions, error) {
	events, err := s.Cluster.AuditEvents(ctx)
	if err != nil {
		return Evictions{}, err
	}
	found := Evictions{Accepted: map[types.UID]int{}, CutOff: map[types.UID]int{}}
	for _, event := range events {
		if !event.Eviction() || event.DryRun() || !Ours(event) || (s.Namespace != "" && event.ObjectRef.Namespace != s.Namespace) {
			continue
		}
		if len(event.RequestObject) == 0 && event.ResponseStatus.Code >= http.StatusBadRequest {
			found.Calls++ // the connection broke before the body arrived: nothing was evicted
			continue
		}
		var body policyv1.Eviction
		if err := json.Unmarshal(event.RequestObject, &body); err != nil {
			return Evictions{}, fmt.Errorf("reading eviction %s in the audit log: %w", event.AuditID, err)
		}
		if body.DeleteOptions == nil || body.DeleteOptions.Preconditions == nil || body.DeleteOptions.Preconditions.UID == nil {
			return Evictions{}, fmt.Errorf("eviction of pod %s names no UID", event.ObjectRef.Name)
		}
		found.count(*body.DeleteOptions.Preconditions.UID, event.ResponseStatus.Code)
	}
	return found, nil
}

func (e *Evictions) count(pod types.UID, code int) {
	e.Calls++
	switch code {
	case http.StatusTooManyRequests:
		e.Refused++
	case http.StatusCreated:
		e.Accepted[pod]++
	case http.StatusGatewayTimeout:
		e.CutOff[pod]++
	}
}

// Times is how often a pod that is gone was evicted. One that was cut off counts where no other did it.
func (e *Evictions) Times(pod types.UID) int {
	if e.Accepted[pod] == 0 {
		return min(e.CutOff[pod], 1)
	}
	return e.Accepted[pod]
}

// Mutations lists the plugin's requests that the API server carried out and that could change something, as "verb resource
// name". Dry runs are left out, and questions about the user's own rights, which are created and not stored.
func (s *Stage) Mutations(ctx context.Context) ([]string, error) {
	events, err := s.Cluster.AuditEvents(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, event := range events {
		done := event.Mutating() && !event.DryRun() && event.ResponseStatus.Code < http.StatusBadRequest
		if Ours(event) && done && event.ObjectRef.APIGroup != "authorization.k8s.io" {
			found = append(found, strings.TrimSpace(event.Verb+" "+event.ObjectRef.Resource+" "+event.ObjectRef.Subresource+" "+event.ObjectRef.Name))
		}
	}
	return found, nil
}

// Marks lists what the plugin puts on nodes and is on this one, and a cordon by whomever.
func Marks(node *corev1.Node) []string {
	var marks []string
	if nodemark.HasTaint(node, nodegroup.FenceTaint("aws")) {
		marks = append(marks, "a taint")
	}
	if node.Spec.Unschedulable {
		marks = append(marks, "a cordon")
	}
	for _, keys := range []map[string]string{node.Annotations, node.Labels} {
		for key := range keys {
			if strings.HasPrefix(key, nodemark.Domain) || key == corev1.LabelNodeExcludeBalancers {
				marks = append(marks, key)
			}
		}
	}
	slices.Sort(marks)
	return marks
}

// CloudMutations lists the requests to the cloud that asked for a change.
func (s *Stage) CloudMutations() []string {
	var found []string
	for _, request := range s.Cloud.Requests() {
		if request.Mutating {
			found = append(found, request.Service+":"+request.Operation)
		}
	}
	return found
}

// BudgetWatch follows budgets and remembers each moment at which one was broken.
type BudgetWatch struct {
	mu     sync.Mutex
	broken []string
	seen   int
	cancel context.CancelFunc
	ended  chan struct{}
}

// WatchBudgets starts to follow the budgets of the namespace.
func (s *Stage) WatchBudgets(ctx context.Context) (*BudgetWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	watcher, err := s.Cluster.Client().PolicyV1().PodDisruptionBudgets(s.Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching the budgets: %w", err)
	}
	w := &BudgetWatch{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if budget, ok := event.Object.(*policyv1.PodDisruptionBudget); ok {
				w.note(budget)
			}
		}
	}()
	return w, nil
}

func (w *BudgetWatch) note(b *policyv1.PodDisruptionBudget) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	if b.Status.CurrentHealthy < b.Status.DesiredHealthy {
		w.broken = append(w.broken, fmt.Sprintf("%s: %d healthy, %d needed", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy))
	}
}

// Broken ends the watch and lists the moments at which a budget had fewer healthy pods than it needs, and how many moments were seen.
func (w *BudgetWatch) Broken() (broken []string, seen int) {
	w.cancel()
	<-w.ended
	return w.broken, w.seen
}
