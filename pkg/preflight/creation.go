package preflight

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// IsCreatedLater reports whether the API server refuses a pod only until the one that it replaces has ended: a quota has
// no room for one more pod, and has room for as many as there are. A pod whose successor comes first never ends.
func IsCreatedLater(refusal string, comesFirst bool) bool {
	used := exceededQuota.FindStringSubmatch(refusal)
	return used != nil && !comesFirst && !isOverdrawn(used[2], used[3])
}

// exceededQuota is how the API server refuses a pod for which a ResourceQuota has no room: its name,
// what is used and what is allowed, as "pods=3,requests.cpu=2" (resourcequota/controller.go,
// checkQuotas).
var exceededQuota = regexp.MustCompile(`exceeded quota: (\S+), requested: \S+, used: (\S+), limited: (\S+)`)

// isOverdrawn reports whether more of a resource is used than is allowed. What cannot be read counts
// as overdrawn.
func isOverdrawn(used, limited string) bool {
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

// RemedyOfRefusal says what makes the API server create a pod that it refuses, by the words of PodSecurity, of
// ResourceQuota, of ServiceAccount and Priority admission, and of webhooks.
func RemedyOfRefusal(refusal string) string {
	if used := exceededQuota.FindStringSubmatch(refusal); used != nil {
		return fmt.Sprintf("raise ResourceQuota %s, or remove pods that count against it", used[1])
	}
	for _, known := range []struct{ says, remedy string }{
		{"violates PodSecurity", "lower the namespace's level pod-security.kubernetes.io/enforce, or give the pods a securityContext that it allows"},
		{"failed quota", "say in the pod template what the quota asks for, or give the namespace a LimitRange with defaults"},
		{"error looking up service account", "create the ServiceAccount again"},
		{"no PriorityClass with name", "create the PriorityClass again, or name another in the pod template"},
		{"failed calling webhook", "see that the webhook's pods run, or set its failurePolicy to Ignore"},
		{"denied the request", "change in the pod template what the webhook denies"},
	} {
		if strings.Contains(refusal, known.says) {
			return known.remedy
		}
	}
	return "change in the pod template what the API server refuses"
}
