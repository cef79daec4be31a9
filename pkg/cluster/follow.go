package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Follower keeps one group's ConfigMap up to date with one watch: its record and the request to the
// holder.
type Follower struct {
	mu      sync.Mutex
	latest  *corev1.ConfigMap
	changed chan struct{}
	asked   chan struct{}
}

// Follow watches the group's ConfigMap until the context ends, and returns when its state is known.
// A watch may begin in the past, so states older than the store's last read or write are ignored.
// From then on Save expects requests that are written beside the record. Follow returns an error if
// ConfigMaps may not be watched, and if the server is not reached.
func (s *Store) Follow(ctx context.Context) (*Follower, error) {
	f := &Follower{latest: s.lastSeen, changed: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
	own := fields.OneTermEqualSelector(metav1.ObjectNameField, ObjectName(s.group)).String()
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithNamespace(s.namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = own }))
	failed := make(chan error, 1)
	registration, err := addHandlers("configmaps", factory.Core().V1().ConfigMaps().Informer(), failed, cache.ResourceEventHandlerFuncs{
		AddFunc:    f.storeLatest,
		UpdateFunc: func(_, object any) { f.storeLatest(object) },
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	syncing, cancel := context.WithTimeoutCause(ctx, syncLimit, fmt.Errorf("it took longer than %s", syncLimit))
	defer cancel()
	if err := waitForSync(syncing, []cache.DoneChecker{registration.HasSyncedChecker()}, failed, syncLimit/syncPatience); err != nil {
		return nil, err
	}
	s.follower = f
	return f, nil
}

func (f *Follower) storeLatest(object any) {
	stored, ok := object.(*corev1.ConfigMap)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !ok || f.latest != nil && isNewer(f.latest, stored) {
		return
	}
	if f.latest == nil || f.latest.Data[keyRequest] != stored.Data[keyRequest] {
		notifyListener(f.asked)
	}
	f.latest = stored
	notifyListener(f.changed)
}

// isNewer reports whether a is a later state of the object than b.
func isNewer(a, b *corev1.ConfigMap) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

func (f *Follower) latestObject() *corev1.ConfigMap {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

// Record returns the last seen record, zero if there is none, and the resourceVersion of its
// ConfigMap. It returns an error in the same cases as Store.LoadRecord.
func (f *Follower) Record() (rec record.Record, version string, err error) {
	stored := f.latestObject()
	if stored == nil {
		return record.Record{}, "", nil
	}
	rec, err = DecodeRecord(stored)
	return rec, stored.ResourceVersion, err
}

// CurrentRequest returns the request to the holder. It is zero if there is none or it cannot be read.
func (f *Follower) CurrentRequest() record.Asked { return decodeRequest(f.latestObject()) }

// Changed receives when the record or the request has changed. It may receive once for several
// changes.
func (f *Follower) Changed() <-chan struct{} { return f.changed }

// RequestChanged receives when the request has changed.
func (f *Follower) RequestChanged() <-chan struct{} { return f.asked }

// decodeRequest returns the request beside a record. Anybody may have written it; an unreadable
// request counts as none.
func decodeRequest(stored *corev1.ConfigMap) record.Asked {
	var asked record.Asked
	if stored == nil || json.Unmarshal([]byte(stored.Data[keyRequest]), &asked) != nil {
		return record.Asked{}
	}
	return asked
}
