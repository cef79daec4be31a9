package gke

import (
	"errors"
	"strings"
	"testing"
)

func TestTargetIsNewestFittingVersionUpToControlPlane(t *testing.T) {
	valid := []string{"1.35.0-gke.100", "1.34.3-gke.1200", "1.34.3-gke.1300", "1.34.1-gke.900", "1.33.5-gke.1000", "1.3.0-gke.1"}
	const controlPlane = "1.34.3-gke.1200"
	for to, want := range map[string]string{
		"1.34": controlPlane, "1.34.3": controlPlane, "1.34.1": "1.34.1-gke.900", "v1.33": "1.33.5-gke.1000", "1.33.5-gke.1000": "1.33.5-gke.1000", "1.3": "1.3.0-gke.1",
	} {
		if got, err := resolveTarget(to, controlPlane, valid); err != nil || got != want {
			t.Errorf("--to=%s is %s (%v), want %s", to, got, err, want)
		}
	}
	for to, want := range map[string]struct {
		says   string
		absent bool
	}{
		"1.35":            {"1.35.0-gke.100 is newer than the control plane's", false},
		"1.34.3-gke.1300": {"1.34.3-gke.1300 is newer than the control plane's", false},
		"1.32":            {"GKE offers no node version 1.32 here", true},
		"latest":          {"--to=latest is not a version of GKE", true},
		"1.34.3-gke.12":   {"GKE offers no node version 1.34.3-gke.12 here", true},
	} {
		_, err := resolveTarget(to, controlPlane, valid)
		refused, ok := errors.AsType[refusedError](err)
		if !ok || !strings.Contains(refused.reason, want.says) || refused.absent != want.absent {
			t.Errorf("--to=%s: %v, want %q, absent %t", to, err, want.says, want.absent)
		}
	}
	if got, err := resolveTarget("1.34", controlPlane, nil); err != nil || got != controlPlane {
		t.Errorf("the control plane's own version is not offered: %s, %v", got, err)
	}
}

func TestPatchesAreComparedAsNumbers(t *testing.T) {
	ordered := []string{"", "1.9.0-gke.1", "1.34.1-gke.900", "1.34.1-gke.1200", "1.34.10-gke.1"}
	for i := range ordered {
		for j := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := compareVersions(ordered[i], ordered[j]); got != want {
				t.Errorf("%q and %q: %d, want %d", ordered[i], ordered[j], got, want)
			}
		}
	}
}
