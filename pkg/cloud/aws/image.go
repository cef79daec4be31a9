package aws

import (
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
)

// image contains the facts about an AMI that an upgrade needs. Unknown facts are empty.
type image struct {
	id   string
	arch string
	// kubernetes is the kubelet's version: "v1.33.4", or "v1.33" if only the name has it.
	kubernetes string
	// family is the operating system. User data for one family cannot start a node of another family.
	family string
}

func describeImage(i et.Image) image {
	name := sdk.ToString(i.Name)
	return image{
		id: sdk.ToString(i.ImageId), arch: string(i.Architecture),
		kubernetes: kubernetesOfImage(name, sdk.ToString(i.Description)), family: osFamilyOf(name),
	}
}

// Amazon's descriptions end in "(k8s: 1.34.1, containerd: …)". Names contain only the minor version:
// amazon-eks-node-al2023-x86_64-standard-1.34-v20250920, bottlerocket-aws-k8s-1.34-x86_64-v1.2.3-…,
// ubuntu-eks/k8s_1.34/images/…, Windows_Server-2022-English-Core-EKS_Optimized-1.34-2026.01.01.
var (
	descriptionVersion = cloud.CompileLater(`\bk8s: (1\.[0-9]+(?:\.[0-9]+)?)\b`)
	nameVersion        = cloud.CompileLater(`(?:^amazon-eks-(?:\w+-)*|^bottlerocket-aws-k8s-|^ubuntu-eks(?:-pro)?/k8s_|EKS_Optimized-)(1\.[0-9]+)(?:[-/]|$)`)
)

// kubernetesOfImage returns the kubelet version that the name or description of an EKS-optimized image contains, "" for any
// other image.
func kubernetesOfImage(name, description string) string {
	for _, found := range [][]string{descriptionVersion().FindStringSubmatch(description), nameVersion().FindStringSubmatch(name)} {
		if found != nil {
			return "v" + found[1]
		}
	}
	return ""
}

// osFamilyOf returns the operating system that the name of an EKS-optimized image contains, "" for any other image.
func osFamilyOf(name string) string {
	switch {
	case strings.HasPrefix(name, "amazon-eks-") && strings.Contains(name, "al2023"):
		return "Amazon Linux 2023"
	case strings.HasPrefix(name, "amazon-eks-"):
		return "Amazon Linux 2"
	case strings.HasPrefix(name, "bottlerocket-"):
		return "Bottlerocket"
	case strings.HasPrefix(name, "ubuntu-eks"):
		return "Ubuntu"
	case strings.HasPrefix(name, "Windows_Server-"):
		return "Windows"
	default:
		return ""
	}
}

// imageIncompatibility returns why a group cannot move from one image to another if only the image changes, "" if it can.
// wanted is the ID that the user asked for.
func imageIncompatibility(from, to image, wanted string) string {
	switch {
	case to.id == "":
		return "there is no image " + wanted + " in this region that this account may use: check the ID and the region"
	case from.arch != "" && to.arch != from.arch:
		return "image " + to.id + " is for " + to.arch + " and the group runs " + from.arch + ": choose an image of that architecture"
	case from.family != "" && to.family != "" && to.family != from.family:
		return "image " + to.id + " is " + to.family + " and the group runs " + from.family +
			", whose user data cannot start that image: create a template version with suitable user data, and pass it with --to"
	default:
		return ""
	}
}
