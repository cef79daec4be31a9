package gke

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
)

// targetPattern matches the values of --to: 1.34, 1.34.1 and 1.34.1-gke.1234000.
var targetPattern = cloud.CompileLater(`^v?([0-9]+\.[0-9]+(?:\.[0-9]+(?:-gke\.[0-9]+)?)?)$`)

// refusedError is the reason why a pool cannot move to a target. absent is true if the target does not exist.
type refusedError struct {
	reason string
	absent bool
}

// Error implements error.
func (e refusedError) Error() string { return e.reason }

// resolveTarget returns the version that --to names: the newest one of the valid versions that begins with it and is not newer than
// the control plane. valid has the versions that GKE offers for nodes. If no version fits, the error is a refusedError.
func resolveTarget(to, controlPlane string, valid []string) (string, error) {
	found := targetPattern().FindStringSubmatch(to)
	if found == nil {
		return "", refusedError{fmt.Sprintf("--to=%s is not a version of GKE: use a value such as 1.34, 1.34.1 or 1.34.1-gke.1234000", to), true}
	}
	wanted := found[1]
	fits := slices.DeleteFunc(slices.Clone(valid), func(v string) bool { return !isVersionOf(v, wanted) })
	if isVersionOf(controlPlane, wanted) && !slices.Contains(fits, controlPlane) {
		fits = append(fits, controlPlane) // GKE always accepts the version of the control plane for its nodes
	}
	if len(fits) == 0 {
		return "", refusedError{fmt.Sprintf("GKE offers no node version %s here: list the versions with gcloud container get-server-config", wanted), true}
	}
	allowed := slices.DeleteFunc(slices.Clone(fits), func(v string) bool { return compareVersions(v, controlPlane) > 0 })
	if len(allowed) == 0 {
		return "", refusedError{fmt.Sprintf("version %s is newer than the control plane's %s: upgrade the control plane first, with gcloud container clusters upgrade --master", slices.MinFunc(fits, compareVersions), controlPlane), false}
	}
	return slices.MaxFunc(allowed, compareVersions), nil
}

// isVersionOf reports whether the version is the wanted one, or a patch of it: 1.34.1-gke.5 is a version of 1.34.
func isVersionOf(v, wanted string) bool {
	rest, ok := strings.CutPrefix(v, wanted)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '-')
}

// compareVersions compares two versions of GKE. A text that is not a version is older than all versions.
func compareVersions(a, b string) int {
	left, errLeft := version.ParseSemantic(a)
	right, errRight := version.ParseSemantic(b)
	switch {
	case errLeft != nil && errRight != nil:
		return 0
	case errLeft != nil:
		return -1
	case errRight != nil:
		return 1
	case left.LessThan(right):
		return -1
	case right.LessThan(left):
		return 1
	}
	return 0
}
