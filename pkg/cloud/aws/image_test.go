package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestKubernetesVersionIsReadFromImageName(t *testing.T) {
	cases := map[string]struct{ name, description, kubernetes, family string }{
		"AL2023 with description": {
			"amazon-eks-node-al2023-x86_64-standard-1.34-v20250920",
			"EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: 1.34.1, containerd: 2.1.4-1.eks.amzn2023.0.1)", "v1.34.1", "Amazon Linux 2023",
		},
		"AL2023":        {"amazon-eks-node-al2023-arm64-standard-1.34-v20250920", "", "v1.34", "Amazon Linux 2023"},
		"AL2":           {"amazon-eks-node-1.30-v20250410", "", "v1.30", "Amazon Linux 2"},
		"AL2 for arm64": {"amazon-eks-arm64-node-1.30-v20250410", "", "v1.30", "Amazon Linux 2"},
		"AL2 with GPU":  {"amazon-eks-gpu-node-1.30-v20250410", "", "v1.30", "Amazon Linux 2"},
		"Bottlerocket":  {"bottlerocket-aws-k8s-1.33-x86_64-v1.40.0-aabbccdd", "", "v1.33", "Bottlerocket"},
		"Ubuntu":        {"ubuntu-eks/k8s_1.33/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250920", "", "v1.33", "Ubuntu"},
		"Windows":       {"Windows_Server-2022-English-Core-EKS_Optimized-1.33-2025.09.20", "", "v1.33", "Windows"},
		"own image":     {"golden-2026-01", "built from 1.33", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := describeImage(et.Image{ImageId: sdk.String("ami-1"), Name: sdk.String(c.name), Description: sdk.String(c.description), Architecture: "arm64"})
			if want := (image{id: "ami-1", arch: "arm64", kubernetes: c.kubernetes, family: c.family}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestUnsuitableTargetImagesAreRejected(t *testing.T) {
	x86 := image{id: "ami-1", arch: "x86_64", family: "Amazon Linux 2"}
	cases := map[string]struct {
		from, to image
		says     string
	}{
		"alike":                   {x86, image{id: "ami-2", arch: "x86_64", family: "Amazon Linux 2"}, ""},
		"does not exist":          {x86, image{}, "no image ami-2"},
		"other architecture":      {x86, image{id: "ami-2", arch: "arm64"}, "arm64"},
		"other operating system":  {x86, image{id: "ami-2", arch: "x86_64", family: "Amazon Linux 2023"}, "user data"},
		"own image":               {x86, image{id: "ami-2", arch: "x86_64"}, ""},
		"the group's is not told": {image{}, image{id: "ami-2", arch: "arm64", family: "Ubuntu"}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := imageIncompatibility(c.from, c.to, "ami-2")
			if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("got %q, want %q", got, c.says)
			}
		})
	}
}
