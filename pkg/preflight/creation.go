package preflight

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// IsRefusedTemporarily reports whether the API server refuses a pod only until the pod that it replaces has ended: the quota has room
// for the current number of pods but not for one more. If the new pod must come first (comesFirst), the old pod never ends.
func IsRefusedTemporarily(refusal string, comesFirst bool) bool {
	used := exceededQuota.FindStringSubmatch(refusal)
	return used != nil && !comesFirst && !isOverQuota(used[2], used[3])
}

// exceededQuota matches the API server's refusal of a pod for which a ResourceQuota has no room. Its groups are the quota's name,
// the used and the allowed amounts, as "pods=3,requests.cpu=2" (resourcequota/controller.go, checkQuotas).
var exceededQuota = regexp.MustCompile(`exceeded quota: (\S+), requested: \S+, used: (\S+), limited: (\S+)`)

// isOverQuota reports whether more of a resource is used than allowed. Values that cannot be read count as overdrawn.
func isOverQuota(used, limited string) bool {
	limits := map[string]string{}
	for pair := range strings.SplitSeq(limited, ",") {
		name, limit, _ := strings.Cut(pair, "=")
		limits[name] = limit
	}
	for pair := range strings.SplitSeq(used, ",") {
		name, amount, _ := strings.Cut(pair, "=")
		now, badAmount := resource.ParseQuantity(amount)
		limit, badLimit := resource.ParseQuantity(limits[name])
		if badAmount != nil || badLimit != nil || now.Cmp(limit) > 0 {
			return true
		}
	}
	return false
}

// RemedyOfRefusal returns what to do so that the API server accepts a pod that it refuses. It recognises the messages of
// PodSecurity, ResourceQuota, ServiceAccount and Priority admission, and of webhooks.
func RemedyOfRefusal(refusal string) string {
	if used := exceededQuota.FindStringSubmatch(refusal); used != nil {
		return fmt.Sprintf("raise ResourceQuota %s, or remove pods that count against it", used[1])
	}
	for _, known := range []struct{ says, remedy string }{
		{"violates PodSecurity", "lower the namespace's label pod-security.kubernetes.io/enforce, or give the pods a securityContext that its level allows"},
		{"failed quota", "set the requests or limits that the quota counts in the pod template, or give the namespace a LimitRange with defaults"},
		{"error looking up service account", "create the ServiceAccount again"},
		{"no PriorityClass with name", "create the PriorityClass again, or name another in the pod template"},
		{"failed calling webhook", "check that the webhook's pods are running, or set its failurePolicy to Ignore"},
		{"denied the request", "change the part of the pod template that the webhook denies"},
	} {
		if strings.Contains(refusal, known.says) {
			return known.remedy
		}
	}
	return "change the part of the pod template that the API server refuses"
}
