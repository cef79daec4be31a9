package aws

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// imageSeries is a line of EKS-optimized images, with its public parameters (EKS user guide,
// "Retrieve recommended Amazon Linux AMI IDs"; Bottlerocket README, "Finding an AMI").
type imageSeries struct {
	// folder holds the images of one Kubernetes version, newest is the one that is recommended
	// within it, and exact one of a release. Both formats take the Kubernetes version, and exact
	// the release's date or, for Bottlerocket, the release.
	folder, newest, exact string
	// release is the parameter of an image that holds its release.
	release string
}

func amazonLinux(folder, images string) imageSeries {
	return imageSeries{
		folder: "/aws/service/eks/optimized-ami/%s/" + folder + "/", newest: "recommended",
		exact: images + "-%[1]s-v%[2]s", release: "release_version",
	}
}

func bottlerocket(variant, arch string) imageSeries {
	return imageSeries{
		folder: "/aws/service/bottlerocket/aws-k8s-%s" + variant + "/" + arch + "/", newest: "latest", exact: "%[2]s",
		release: "image_version",
	}
}

// seriesOf is the series that EKS takes the images of an AMI type from. It has no folder where
// none is known: of Windows no parameter holds the release.
func seriesOf(t kt.AMITypes) imageSeries {
	return map[kt.AMITypes]imageSeries{
		kt.AMITypesAl2023X8664Standard: amazonLinux("amazon-linux-2023/x86_64/standard", "amazon-eks-node-al2023-x86_64-standard"),
		kt.AMITypesAl2023Arm64Standard: amazonLinux("amazon-linux-2023/arm64/standard", "amazon-eks-node-al2023-arm64-standard"),
		kt.AMITypesAl2023X8664Nvidia:   amazonLinux("amazon-linux-2023/x86_64/nvidia", "amazon-eks-node-al2023-x86_64-nvidia"),
		kt.AMITypesAl2023Arm64Nvidia:   amazonLinux("amazon-linux-2023/arm64/nvidia", "amazon-eks-node-al2023-arm64-nvidia"),
		kt.AMITypesAl2023X8664Neuron:   amazonLinux("amazon-linux-2023/x86_64/neuron", "amazon-eks-node-al2023-x86_64-neuron"),

		kt.AMITypesAl2X8664:    amazonLinux("amazon-linux-2", "amazon-eks-node"),
		kt.AMITypesAl2X8664Gpu: amazonLinux("amazon-linux-2-gpu", "amazon-eks-gpu-node"),
		kt.AMITypesAl2Arm64:    amazonLinux("amazon-linux-2-arm64", "amazon-eks-arm64-node"),

		kt.AMITypesBottlerocketX8664:           bottlerocket("", "x86_64"),
		kt.AMITypesBottlerocketArm64:           bottlerocket("", "arm64"),
		kt.AMITypesBottlerocketX8664Fips:       bottlerocket("-fips", "x86_64"),
		kt.AMITypesBottlerocketArm64Fips:       bottlerocket("-fips", "arm64"),
		kt.AMITypesBottlerocketX8664Nvidia:     bottlerocket("-nvidia", "x86_64"),
		kt.AMITypesBottlerocketArm64Nvidia:     bottlerocket("-nvidia", "arm64"),
		kt.AMITypesBottlerocketX8664NvidiaFips: bottlerocket("-nvidia-fips", "x86_64"),
		kt.AMITypesBottlerocketArm64NvidiaFips: bottlerocket("-nvidia-fips", "arm64"),
	}[t]
}

func (s imageSeries) isKnown() bool { return s.folder != "" }

// newestParameters are the parameters that hold release and AMI of the newest image for a
// Kubernetes version.
func (s imageSeries) newestParameters(kubernetes string) (release, image string) {
	path := fmt.Sprintf(s.folder, kubernetes) + s.newest
	return path + "/" + s.release, path + "/image_id"
}

// exactParameters are the parameters that hold the AMI of a release, and the release that the AMI is of.
func (s imageSeries) exactParameters(kubernetes, release string) (image, of string) {
	build := release
	if s.newest == "recommended" {
		_, build, _ = strings.Cut(release, "-")
	}
	path := fmt.Sprintf(s.folder, kubernetes) + fmt.Sprintf(s.exact, kubernetes, build)
	return path + "/image_id", path + "/" + s.release
}

// isBottlerocket reports whether the releases of an AMI type count Bottlerocket's own versions,
// which say nothing of Kubernetes.
func isBottlerocket(t kt.AMITypes) bool { return strings.HasPrefix(string(t), "BOTTLEROCKET_") }

// releaseForm is the form of a release: 1.33.4-20261101 of Amazon Linux (Kubernetes and date),
// 1.33-2026.11.10 of Windows (the same), 1.50.0-fcf71a47 of Bottlerocket (its own version).
var releaseForm = regexp.MustCompile(`^([0-9]+\.[0-9]+)(\.[0-9]+)?-[0-9a-f.]+$`)

// kubernetesOfRelease is the Kubernetes version of a release, "1.33"; that of the group for
// releases that do not say.
func kubernetesOfRelease(t kt.AMITypes, release, ofGroup string) string {
	if found := releaseForm.FindStringSubmatch(release); found != nil && !isBottlerocket(t) {
		return found[1]
	}
	return ofGroup
}

// kubeletOfRelease is the kubelet's version as nodes tell it: "v1.33.4", "v1.33" where the release
// says no more.
func kubeletOfRelease(t kt.AMITypes, release, kubernetes string) string {
	found := releaseForm.FindStringSubmatch(release)
	switch {
	case found != nil && !isBottlerocket(t):
		return "v" + found[1] + found[2]
	case kubernetes != "":
		return "v" + kubernetes
	default:
		return ""
	}
}

// compareReleases tells which of two releases of an AMI type is older: by numbers from left to
// right. What distinguishes two builds of one version of Bottlerocket says nothing of their age.
func compareReleases(t kt.AMITypes, a, b string) int {
	if isBottlerocket(t) {
		a, _, _ = strings.Cut(a, "-")
		b, _, _ = strings.Cut(b, "-")
	}
	return compareVersions(a, b)
}

// compareVersions tells which of two Kubernetes versions, 1.9 and 1.33, is older.
func compareVersions(a, b string) int { return slices.Compare(numbersIn(a), numbersIn(b)) }

// numbersIn lists the numbers of a version, 1, 33, 4 and 20261101 of 1.33.4-20261101.
func numbersIn(version string) []int {
	var out []int
	for _, digits := range strings.FieldsFunc(version, func(r rune) bool { return r == '.' || r == '-' }) {
		n, _ := strconv.Atoi(digits) // what is no number counts as 0
		out = append(out, n)
	}
	return out
}
