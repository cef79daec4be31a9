package dump

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/trim"
)

// BenchmarkRead reads a List of many pods, in JSON and in YAML.
func BenchmarkRead(b *testing.B) {
	items := []json.RawMessage{json.RawMessage(nodeJSON)}
	for i := range 2000 {
		pod := Example().Pods[12]
		pod.APIVersion, pod.Kind, pod.Name, pod.UID = "v1", "Pod", fmt.Sprint("pod-", i), ""
		pod.Annotations = map[string]string{"text": strings.Repeat("long ", 100)}
		item, err := json.Marshal(pod)
		if err != nil {
			b.Fatal(err)
		}
		items = append(items, item)
	}
	inJSON, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		b.Fatal(err)
	}
	inYAML, err := yaml.JSONToYAML(inJSON)
	if err != nil {
		b.Fatal(err)
	}
	for format, text := range map[string]string{"JSON": string(inJSON), "YAML": string(inYAML)} {
		b.Run(format, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(strings.NewReader(text), Limits{}, trim.Object); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
