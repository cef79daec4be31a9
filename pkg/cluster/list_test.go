package cluster

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// encoded returns a list of pods as the API server encodes it.
func encoded(t *testing.T, pods int) []byte {
	t.Helper()
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for i := range pods {
		list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Annotations: map[string]string{"long": strings.Repeat("x", i)}}})
	}
	var text bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &text); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// answering returns a client of a server that always gives the same answer.
func answering(t *testing.T, answer []byte) rest.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(answer) // the reader may have stopped
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	must(t, err)
	return client.CoreV1().RESTClient()
}

// listAll lists the objects of a resource.
func listAll(ctx context.Context, client rest.Interface, resource string, keep func(metav1.Object)) error {
	kind := inventory.FindKind(resource)
	list := listing{client: client, kind: &kind, drop: prunedMetadata()}
	return list.read(ctx, keep)
}

func TestListReadsProtobufJSONAndPages(t *testing.T) {
	const pods = 300 // up to 300 bytes each: more than the read buffer
	unknownField := slices.Concat(encoded(t, 0), []byte{5<<3 | 2, 1, 'x'})
	cases := map[string]struct {
		answer []byte
		want   int
	}{
		"protobuf":                  {encoded(t, pods), pods},
		"no pods":                   {encoded(t, 0), 0},
		"a field that is not known": {unknownField, 0},
		"JSON":                      {[]byte(`{"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"web-0"}},{"metadata":{"name":"web-1"}}]}`), 2},
		"JSON without any":          {[]byte(`{"kind":"List","metadata":{}}`), 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := 0
			err := listAll(t.Context(), answering(t, c.answer), "pods", func(pod metav1.Object) {
				if want := fmt.Sprintf("web-%d", n); pod.GetName() != want {
					t.Errorf("read %q, want %q", pod.GetName(), want)
				}
				n++
			})
			if err != nil || n != c.want {
				t.Errorf("read %d pods and error %v, want %d", n, err, c.want)
			}
		})
	}
}

// TestTruncatedListIsAnError: the answer ends anywhere, so that a part of a cluster is never taken for the whole.
func TestTruncatedListIsAnError(t *testing.T) {
	whole := encoded(t, 3)
	end := bytes.LastIndex(whole, []byte("web-2")) + len("web-2") // after this position there are only empty fields
	for cut := range end {
		client := answering(t, whole[:cut])
		if err := listAll(context.Background(), client, "pods", func(metav1.Object) {}); err == nil || !strings.HasPrefix(err.Error(), "listing pods: ") {
			t.Fatalf("cut after %d of %d bytes: got error %v", cut, len(whole), err)
		}
	}
}

func TestInvalidListIsAnError(t *testing.T) {
	list1 := func(list ...byte) []byte { return append([]byte{'k', '8', 's', 0, 2<<3 | 2, byte(len(list))}, list...) }
	cases := map[string][]byte{
		"a number for an item":    list1(2<<3, 1),
		"an item without an end":  list1(2<<3|2, 9, 1),
		"a size beyond all":       append([]byte("k8s\x00"), 2<<3|2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
		"an item that is no pod":  list1(2<<3|2, 2, 1<<3|2, 9),
		"JSON that is no list":    []byte("{}"),
		"neither JSON nor a list": []byte("<html>"),
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			if err := listAll(t.Context(), answering(t, answer), "pods", func(metav1.Object) {}); err == nil {
				t.Error("no error")
			}
		})
	}
}
