package aws

import (
	"path"
	"strings"
	"testing"

	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func TestSSMParametersAreDerivedFromAMIType(t *testing.T) {
	const eks = "/aws/service/eks/optimized-ami/1.33/"
	cases := map[kt.AMITypes]struct{ release, newest, exact string }{
		"AL2023_x86_64_STANDARD": {
			"1.33.4-20261101", eks + "amazon-linux-2023/x86_64/standard/recommended/release_version",
			eks + "amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.33-v20261101/image_id",
		},
		"AL2023_ARM_64_NVIDIA": {
			"1.33.4-20261101", eks + "amazon-linux-2023/arm64/nvidia/recommended/release_version",
			eks + "amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.33-v20261101/image_id",
		},
		"AL2_x86_64_GPU": {
			"1.33.4-20261101", eks + "amazon-linux-2-gpu/recommended/release_version", eks + "amazon-linux-2-gpu/amazon-eks-gpu-node-1.33-v20261101/image_id",
		},
		"BOTTLEROCKET_ARM_64_NVIDIA_FIPS": {
			"1.50.0-fcf71a47", "/aws/service/bottlerocket/aws-k8s-1.33-nvidia-fips/arm64/latest/image_version",
			"/aws/service/bottlerocket/aws-k8s-1.33-nvidia-fips/arm64/1.50.0-fcf71a47/image_id",
		},
	}
	for amiType, c := range cases {
		s := imageSeriesOf(amiType)
		if newest, _ := s.newestParameters("1.33"); newest != c.newest {
			t.Errorf("%s: got %s, want %s", amiType, newest, c.newest)
		}
		if exact, of := s.releaseParameters("1.33", c.release); exact != c.exact || c.exact != "" && path.Dir(of) != path.Dir(exact) {
			t.Errorf("%s: got %s, want %s", amiType, exact, c.exact)
		}
	}
}

// TestEveryAMITypeHasAReleaseSeries fails if a new version of the SDK has an AMI type without a series.
func TestEveryAMITypeHasAReleaseSeries(t *testing.T) {
	for _, amiType := range kt.AMITypes("").Values() {
		none := amiType == kt.AMITypesCustom || strings.HasPrefix(string(amiType), "WINDOWS_")
		if imageSeriesOf(amiType).isKnown() == none {
			t.Errorf("%s: a series is known: %v", amiType, !none)
		}
		release, image := imageSeriesOf(amiType).newestParameters("1.33")
		if !none && (strings.Contains(release, "%!") || !strings.HasSuffix(image, "/image_id")) {
			t.Errorf("%s: %s and %s", amiType, release, image)
		}
	}
}

func TestReleasesAreComparedByVersionAndDate(t *testing.T) {
	cases := []struct {
		amiType kt.AMITypes
		a, b    string
		want    int
	}{
		{"AL2023_x86_64_STANDARD", "1.33.4-20261101", "1.33.4-20261101", 0},
		{"AL2023_x86_64_STANDARD", "1.33.4-20261101", "1.33.4-20261201", -1},
		{"AL2023_x86_64_STANDARD", "1.33.10-20261101", "1.33.4-20261201", 1},
		{"AL2023_x86_64_STANDARD", "1.9.1-20261101", "1.33.4-20261101", -1},
		{"WINDOWS_CORE_2022_x86_64", "1.33-2026.11.10", "1.33-2026.02.11", 1},
		{"BOTTLEROCKET_x86_64", "1.50.0-fcf71a47", "1.50.0-0a46e2bc", 0},
		{"BOTTLEROCKET_x86_64", "1.50.0-fcf71a47", "1.50.1-0a46e2bc", -1},
	}
	for _, c := range cases {
		if got := compareReleases(c.amiType, c.a, c.b); got != c.want {
			t.Errorf("%s and %s: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestKubernetesVersionIsReadFromRelease(t *testing.T) {
	cases := []struct {
		amiType                      kt.AMITypes
		release, kubernetes, kubelet string
	}{
		{"AL2023_x86_64_STANDARD", "1.34.1-20261101", "1.34", "v1.34.1"},
		{"WINDOWS_CORE_2022_x86_64", "1.34-2026.11.10", "1.34", "v1.34"},
		{"BOTTLEROCKET_x86_64", "1.50.0-fcf71a47", "1.33", "v1.33"},
	}
	for _, c := range cases {
		kubernetes := kubernetesOfRelease(c.amiType, c.release, "1.33")
		if kubelet := kubeletOfRelease(c.amiType, c.release, kubernetes); kubernetes != c.kubernetes || kubelet != c.kubelet {
			t.Errorf("%s: got %s, %s", c.release, kubernetes, kubelet)
		}
	}
	if got := kubeletOfRelease("CUSTOM", "ami-1", ""); got != "" {
		t.Errorf("an unknown version is %q", got)
	}
}
