package aws

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
)

// imageSeries contains the names of the public SSM parameters for one kind of EKS-optimized images (EKS user guide, "Retrieve
// recommended Amazon Linux AMI IDs"; Bottlerocket README, "Finding an AMI").
type imageSeries struct {
	// folder is the path of the images of one Kubernetes version. In the folder, newest is the recommended image, and exact is
	// the image of one release. folder and exact are formats. Their first argument is the Kubernetes version. The second
	// argument of exact is the release's date or, for Bottlerocket, the release.
	folder, newest, exact string
	// release is the name of the parameter that contains an image's release.
	release string
}

func amazonLinuxSeries(folder, images string) imageSeries {
	return imageSeries{
		folder: "/aws/service/eks/optimized-ami/%s/" + folder + "/", newest: "recommended",
		exact: images + "-%[1]s-v%[2]s", release: "release_version",
	}
}

func bottlerocketSeries(variant, arch string) imageSeries {
	return imageSeries{
		folder: "/aws/service/bottlerocket/aws-k8s-%s" + variant + "/" + arch + "/", newest: "latest", exact: "%[2]s",
		release: "image_version",
	}
}

// imageSeriesOf returns the series of an AMI type. If the series is not known, its folder is empty. Windows has no series,
// because no parameter contains the release.
func imageSeriesOf(t kt.AMITypes) imageSeries {
	return map[kt.AMITypes]imageSeries{
		kt.AMITypesAl2023X8664Standard: amazonLinuxSeries("amazon-linux-2023/x86_64/standard", "amazon-eks-node-al2023-x86_64-standard"),
		kt.AMITypesAl2023Arm64Standard: amazonLinuxSeries("amazon-linux-2023/arm64/standard", "amazon-eks-node-al2023-arm64-standard"),
		kt.AMITypesAl2023X8664Nvidia:   amazonLinuxSeries("amazon-linux-2023/x86_64/nvidia", "amazon-eks-node-al2023-x86_64-nvidia"),
		kt.AMITypesAl2023Arm64Nvidia:   amazonLinuxSeries("amazon-linux-2023/arm64/nvidia", "amazon-eks-node-al2023-arm64-nvidia"),
		kt.AMITypesAl2023X8664Neuron:   amazonLinuxSeries("amazon-linux-2023/x86_64/neuron", "amazon-eks-node-al2023-x86_64-neuron"),

		kt.AMITypesAl2X8664:    amazonLinuxSeries("amazon-linux-2", "amazon-eks-node"),
		kt.AMITypesAl2X8664Gpu: amazonLinuxSeries("amazon-linux-2-gpu", "amazon-eks-gpu-node"),
		kt.AMITypesAl2Arm64:    amazonLinuxSeries("amazon-linux-2-arm64", "amazon-eks-arm64-node"),

		kt.AMITypesBottlerocketX8664:           bottlerocketSeries("", "x86_64"),
		kt.AMITypesBottlerocketArm64:           bottlerocketSeries("", "arm64"),
		kt.AMITypesBottlerocketX8664Fips:       bottlerocketSeries("-fips", "x86_64"),
		kt.AMITypesBottlerocketArm64Fips:       bottlerocketSeries("-fips", "arm64"),
		kt.AMITypesBottlerocketX8664Nvidia:     bottlerocketSeries("-nvidia", "x86_64"),
		kt.AMITypesBottlerocketArm64Nvidia:     bottlerocketSeries("-nvidia", "arm64"),
		kt.AMITypesBottlerocketX8664NvidiaFips: bottlerocketSeries("-nvidia-fips", "x86_64"),
		kt.AMITypesBottlerocketArm64NvidiaFips: bottlerocketSeries("-nvidia-fips", "arm64"),
	}[t]
}

func (s imageSeries) isKnown() bool { return s.folder != "" }

// newestParameters returns the names of the parameters that contain the release and the AMI of the newest image for a
// Kubernetes version.
func (s imageSeries) newestParameters(kubernetes string) (release, image string) {
	path := fmt.Sprintf(s.folder, kubernetes) + s.newest
	return path + "/" + s.release, path + "/image_id"
}

// releaseParameters returns the names of two parameters: image contains the AMI of a release, and imageRelease contains the
// release of that AMI.
func (s imageSeries) releaseParameters(kubernetes, release string) (image, imageRelease string) {
	build := release
	if s.newest == "recommended" {
		_, build, _ = strings.Cut(release, "-")
	}
	path := fmt.Sprintf(s.folder, kubernetes) + fmt.Sprintf(s.exact, kubernetes, build)
	return path + "/image_id", path + "/" + s.release
}

// isBottlerocket reports whether the releases of an AMI type are versions of Bottlerocket, which do
// not contain a Kubernetes version.
func isBottlerocket(t kt.AMITypes) bool { return strings.HasPrefix(string(t), "BOTTLEROCKET_") }

// releasePattern matches a release: 1.33.4-20261101 of Amazon Linux (Kubernetes and date),
// 1.33-2026.11.10 of Windows (the same), 1.50.0-fcf71a47 of Bottlerocket (its own version).
var releasePattern = cloud.CompileLater(`^([0-9]+\.[0-9]+)(\.[0-9]+)?-[0-9a-f.]+$`)

// kubernetesOfRelease returns the Kubernetes version in a release, "1.33". If the release does not contain it, the function
// returns ofGroup.
func kubernetesOfRelease(t kt.AMITypes, release, ofGroup string) string {
	if found := releasePattern().FindStringSubmatch(release); found != nil && !isBottlerocket(t) {
		return found[1]
	}
	return ofGroup
}

// kubeletOfRelease returns the kubelet version of a release as nodes report it: "v1.33.4", or "v1.33" if the release contains
// no patch version.
func kubeletOfRelease(t kt.AMITypes, release, kubernetes string) string {
	found := releasePattern().FindStringSubmatch(release)
	switch {
	case found != nil && !isBottlerocket(t):
		return "v" + found[1] + found[2]
	case kubernetes != "":
		return "v" + kubernetes
	default:
		return ""
	}
}

// compareReleases compares the age of two releases of an AMI type, number by number from left to
// right. It ignores the build of a Bottlerocket version, which does not show its age.
func compareReleases(t kt.AMITypes, a, b string) int {
	if isBottlerocket(t) {
		a, _, _ = strings.Cut(a, "-")
		b, _, _ = strings.Cut(b, "-")
	}
	return compareVersions(a, b)
}

// compareVersions compares two Kubernetes versions, 1.9 and 1.33.
func compareVersions(a, b string) int { return slices.Compare(numbersIn(a), numbersIn(b)) }

// numbersIn lists the numbers of a version: 1, 33, 4 and 20261101 of 1.33.4-20261101.
func numbersIn(version string) []int {
	var out []int
	for _, digits := range strings.FieldsFunc(version, func(r rune) bool { return r == '.' || r == '-' }) {
		n, _ := strconv.Atoi(digits) // text that is not a number counts as 0
		out = append(out, n)
	}
	return out
}
