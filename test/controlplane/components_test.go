package controlplane

import (
	"strings"
	"testing"
	"time"
)

// TestNodeLeasesAreRenewedWithinGracePeriod checks that a kubelet can renew its lease several times before its node is NotReady.
func TestNodeLeasesAreRenewedWithinGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		grace time.Duration
		want  int
	}{
		"kubernetes' own":      {50 * time.Second, 40},
		"default":              {10 * time.Second, 8},
		"shortest":             {2 * time.Second, 1},
		"no shorter than 1 s":  {time.Second, 1},
		"not a multiple of 5s": {9 * time.Second, 7},
	} {
		t.Run(name, func(t *testing.T) {
			if got := leaseSeconds(test.grace); got != test.want {
				t.Errorf("got %d s, want %d s", got, test.want)
			}
		})
	}
}

func TestKWOKConfigIsFilledIn(t *testing.T) {
	got := kwokConfig(Options{KWOKParallelism: 7}, "v1.99.0")
	if !strings.Contains(got, "podPlayStageParallelism: 7\n") {
		t.Error("the configuration lacks the parallelism")
	}
	if !strings.Contains(got, `"v1.99.0"`) || strings.Contains(got, "KUBELET_VERSION}") || strings.Contains(got, `"KUBELET_VERSION"`) {
		t.Error("the kubelets' version is not filled in")
	}
	// In one document, KWOK would read the first stage as options.
	if options, rest, _ := strings.Cut(got, "\n---\n"); strings.Contains(options, "Stage\n") || !strings.Contains(rest, "kind: Stage") {
		t.Error("options and stages are not separate documents")
	}
}

// TestKWOKStagesUseEachAnnotation checks that stages.yaml uses every annotation of doc.go.
func TestKWOKStagesUseEachAnnotation(t *testing.T) {
	for _, annotation := range []string{
		AnnotationReadyAfter, AnnotationTerse, AnnotationGoneAfter, AnnotationCompletesAfter, AnnotationNeverReady,
		AnnotationCrashLoop, AnnotationCrashOn, AnnotationNeverGone, AnnotationBootAfter, AnnotationKubelet,
	} {
		if !strings.Contains(stages, annotation) {
			t.Errorf("no stage reads %s", annotation)
		}
	}
}
