package dump

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// FuzzRead checks that any input gives either a whole dump or an error of one line, and the same
// result however the input is split into reads.
func FuzzRead(f *testing.F) {
	seeds := []string{
		"", listJSON, listYAML, nodeJSON + podJSON, nodeYAML + "---\n" + podJSON, pack(listJSON, 1), pack(listJSON, 2), pack(listYAML, 1),
		"\xef\xbb\xbf" + listJSON, "\xff\xfe{\x00", listJSON[:90], listYAML[:90], `{"kind":"List","items":[` + listJSON + `]}`,
		`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}`, "kind: List\nitems: [" + nodeJSON + "]\n",
		"items:\n- &a {kind: Node, apiVersion: v1, metadata: {name: a}}\n- *a\n", "items:\n  -\n    kind: Pod\n",
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"status":{"allocatable":{"cpu":"1e-9999"}}}`,
		`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b"},"spec":{"maxUnavailable":"30%"}}`,
		`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"r"},"spec":{"replicas":2}}`,
		"{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}}\n---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}}\n",
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	limits := Limits{JSON: 1 << 20, YAML: 64 << 10, Objects: 100}
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := Read(bytes.NewReader(in), limits, trim.Object)
		_, again := Read(iotest.OneByteReader(bytes.NewReader(in)), limits, trim.Object)
		if (err == nil) != (again == nil) || (err != nil && err.Error() != again.Error()) {
			t.Errorf("in one read %v, byte by byte %v", err, again)
		}
		if err != nil {
			if text := err.Error(); text == "" || len(text) > 2000 || strings.ContainsAny(text, "\n\r") {
				t.Errorf("the error is not one line: %q", text)
			}
			return
		}
		if len(d.Nodes) == 0 {
			t.Error("no nodes, and no error")
		}
		for _, pod := range d.Pods {
			if pod.UID == "" || pod.Name == "" || pod.Namespace == "" {
				t.Errorf("pod %q of namespace %q has uid %q", pod.Name, pod.Namespace, pod.UID)
			}
		}
	})
}
