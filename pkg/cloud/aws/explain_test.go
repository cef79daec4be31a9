package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	kt "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// TestEveryEKSErrorCodeIsExplained checks that each code of a failed update or an unhealthy node group has
// a cause and a remedy (EKS E33, E34, E35). Codes of add-ons do not belong to node groups.
func TestEveryEKSErrorCodeIsExplained(t *testing.T) {
	unexplained := explanationOf("x")
	ofAddOns := []string{
		"InsufficientNumberOfReplicas", "ConfigurationConflict", "UnsupportedAddonModification", "K8sResourceNotFound", "Unknown",
	}
	var codes []string
	for _, c := range kt.ErrorCode("").Values() {
		codes = append(codes, string(c))
	}
	for _, c := range kt.NodegroupIssueCode("").Values() {
		codes = append(codes, string(c))
	}
	for _, code := range codes {
		e := explanationOf(code)
		other := false
		for _, c := range ofAddOns {
			other = other || c == code
		}
		if (e == unexplained) != other {
			t.Errorf("%s: got %+v", code, e)
		}
		text := explainHealthIssue(kt.Issue{Code: kt.NodegroupIssueCode(code), Message: sdk.String("So it\nis."), ResourceIds: []string{"i-1"}})
		if strings.Contains(text, "\n") || !strings.Contains(text, " (i-1) ["+code+": So it is]: ") {
			t.Errorf("%s: got %q", code, text)
		}
	}
}

func TestFailedEKSUpdatesAreExplained(t *testing.T) {
	failure := func(code kt.ErrorCode, message string, ids ...string) kt.ErrorDetail {
		return kt.ErrorDetail{ErrorCode: code, ErrorMessage: sdk.String(message), ResourceIds: ids}
	}
	const tired = "Reached max retries while trying to evict pods from nodes in node group web"
	cases := map[string]struct {
		failures []kt.ErrorDetail
		force    bool
		code     string
		text     string
		ids      string
	}{
		// EKS E42, E52: EKS names the node but not the pod.
		"drain": {
			failures: []kt.ErrorDetail{failure("PodEvictionFailure", tired, "ip-1.ec2.internal")},
			code:     "PodEvictionFailure",
			text: "EKS could not drain the node within 15 minutes (ip-1.ec2.internal) [PodEvictionFailure: " + tired +
				"]: find the PodDisruptionBudget with kubectl nodeupgrade status and change it so that it allows an eviction, or pass --on-timeout=force",
			ids: "ip-1.ec2.internal",
		},
		"drain with force": {
			failures: []kt.ErrorDetail{failure("PodEvictionFailure", "", "ip-1")}, force: true, code: "PodEvictionFailure",
			text: "EKS could not drain the node within 15 minutes (ip-1) [PodEvictionFailure]: check the pods that are left on the node",
			ids:  "ip-1",
		},
		"several": {
			failures: []kt.ErrorDetail{
				failure("ClusterUnreachable", "no answer", "i-1", "i-2"), failure("ClusterUnreachable", "", "i-2"), failure("EniLimitReached", "", "i-3"),
			},
			code: "ClusterUnreachable",
			text: "EKS or the nodes could not reach the API server (i-1, i-2, i-3) [ClusterUnreachable: no answer]: check that it answers, and that security groups and routes allow connections from the nodes; EKS also reports EniLimitReached",
			ids:  "i-1 i-2 i-3",
		},
		"many": {
			failures: []kt.ErrorDetail{failure("InsufficientFreeAddresses", "", "1", "2", "3", "4", "5", "6", "7")},
			code:     "InsufficientFreeAddresses",
			text:     "its subnets have no free addresses for new nodes (1, 2, 3, 4, 5 and 2 more) [InsufficientFreeAddresses]: free addresses, or lower maxUnavailable in its updateConfig",
			ids:      "1 2 3 4 5 6 7",
		},
		"nothing": {text: "EKS does not say why: read the node group's update history in the console"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, text, ids := explainFailedUpdate(c.failures, c.force)
			if code != c.code || text != c.text || strings.Join(ids, " ") != c.ids {
				t.Errorf("got %s, %v\n%s\nwant\n%s", code, ids, text, c.text)
			}
		})
	}
}
