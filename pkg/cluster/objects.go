package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// ReadObjects lists the kinds that the use needs, each once, and keeps the fields of their objects that the use needs. It returns
// an error if a required kind may not be listed, and if the server fails. Unread names the optional kinds that may not be listed.
func ReadObjects(ctx context.Context, client kubernetes.Interface, use inventory.Use) (*inventory.Objects, error) {
	o, core := &inventory.Objects{}, client.CoreV1().RESTClient()
	var unread sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	for _, kind := range inventory.Kinds() {
		if !kind.IsReadFor(use) {
			continue
		}
		g.Go(func() error {
			err := readKind(ctx, core, &kind, use, o)
			switch {
			case kind.MayBeAbsent && apierrors.IsNotFound(err):
				return nil
			case kind.Optional&use != 0 && apierrors.IsForbidden(err):
				unread.Lock()
				defer unread.Unlock()
				o.Unread = append(o.Unread, kind.Resource)
				return nil
			default:
				return err
			}
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(o.Unread)
	return o, nil
}

// readKind adds the objects of a kind to o, trimmed for the use. Pods of one controller share their equal parts.
func readKind(ctx context.Context, client rest.Interface, kind *inventory.Kind, use inventory.Use, o *inventory.Objects) error {
	if len(kind.Names) > 0 {
		return readNamed(ctx, client, kind, o)
	}
	trimObject, sharer := trim.Object, trim.NewSharer()
	if use == inventory.ForChecks {
		trimObject = trim.ForChecks
	}
	list := listing{client: client, kind: kind, drop: prunedFieldsOf(kind.Resource, use)}
	return list.read(ctx, func(object metav1.Object) {
		trimObject(object)
		if pod, ok := object.(*corev1.Pod); ok {
			sharer.Pod(pod)
		}
		kind.Keep(o, object)
	})
}

// readNamed adds the objects that have one of the kind's names.
func readNamed(ctx context.Context, client rest.Interface, kind *inventory.Kind, o *inventory.Objects) error {
	for _, name := range kind.Names {
		request := client.Get().AbsPath(kind.Path()).Namespace(metav1.NamespaceSystem).Resource(kind.Resource).Name(name)
		text, err := request.SetHeader("Accept", "application/json").DoRaw(ctx)
		if apierrors.IsNotFound(err) {
			continue
		}
		object := kind.New()
		if err == nil {
			err = json.Unmarshal(text, object)
		}
		if err != nil {
			return fmt.Errorf("reading %s %s: %w", strings.ToLower(kind.Name), name, err)
		}
		kind.Keep(o, object)
	}
	return nil
}
