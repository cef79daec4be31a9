package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// ObjectName returns the name of a group's Lease and ConfigMap: nodeupgrade-<slug>-<8 hex>. The
// slug is for people and may be shortened. The hash of the group's full name makes the object's
// name unique.
func ObjectName(group string) string {
	const longest = 40
	slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(group), "-"), "-")
	slug = strings.Trim(slug[:min(len(slug), longest)], "-")
	sum := sha256.Sum256([]byte(group))
	return strings.Trim("nodeupgrade-"+slug, "-") + "-" + hex.EncodeToString(sum[:4])
}
