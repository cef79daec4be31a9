package cluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
)

// TestMissingAutoscalerIsExplained checks GKE G80: a recent status counts if it names the group, or if the group's tags enable
// auto-discovery.
func TestMissingAutoscalerIsExplained(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	young, old := "2026-01-02 15:00:00.123456789 +0000 UTC", "2026-01-02 14:00:00 +0000 UTC"
	const plain = "NodeGroups:\n  Name:        workers\n  Health:      Healthy\n"
	const yaml = "nodeGroups:\n- health:\n    status: Healthy\n  name: workers\n"
	cases := map[string]struct {
		written, text string
		tagged        bool
		want          string
	}{
		"named in text":          {young, plain, false, ""},
		"named in YAML":          {young, yaml, false, ""},
		"found by its tags":      {young, "", true, ""},
		"no time is told":        {"", plain, false, ""},
		"another group is named": {young, strings.ReplaceAll(plain, "workers", "workers-2"), false, "does not name it, and no tag makes the autoscaler find it"},
		"nothing is named":       {young, "Health: workers", false, "does not name it"},
		"an old one":             {old, plain, true, "last wrote its status at 2026-01-02T14:00:00Z"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			status := &corev1.ConfigMap{Data: map[string]string{"status": c.text}, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{statusUpdated: c.written}}}
			group := &nodegroup.Group{Name: "workers", Autoscaler: nodegroup.Autoscaler{Tagged: c.tagged}}
			if got := explainMissing(status, group, now); !strings.Contains(got, c.want) || (c.want == "" && got != "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
