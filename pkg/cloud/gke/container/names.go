package container

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// LocationName names a zone or region of a project. The location "-" means all.
type LocationName struct{ Project, Location string }

// ClusterName names a cluster. Project is an ID or a number. Location is a zone or a region.
type ClusterName struct{ Project, Location, Cluster string }

// PoolName names a node pool.
type PoolName struct {
	ClusterName
	Pool string
}

// OperationName names an operation. Location is that of the operation's cluster.
type OperationName struct{ Project, Location, Operation string }

// String returns the resource name: "projects/p/locations/l".
func (n LocationName) String() string { return "projects/" + n.Project + "/locations/" + n.Location }

// String returns the resource name: "projects/p/locations/l/clusters/c".
func (n ClusterName) String() string { return n.Parent().String() + "/clusters/" + n.Cluster }

// String returns the resource name: "projects/p/locations/l/clusters/c/nodePools/n".
func (n PoolName) String() string { return n.ClusterName.String() + "/nodePools/" + n.Pool }

// String returns the resource name: "projects/p/locations/l/operations/o".
func (n OperationName) String() string { return n.Parent().String() + "/operations/" + n.Operation }

// Parent returns the cluster's location.
func (n ClusterName) Parent() LocationName { return LocationName{n.Project, n.Location} }

// Parent returns the operation's location.
func (n OperationName) Parent() LocationName { return LocationName{n.Project, n.Location} }

// Operation returns the name of an operation of the same project and location.
func (n ClusterName) Operation(operation string) OperationName {
	return OperationName{n.Project, n.Location, operation}
}

func (n LocationName) path() (string, error) {
	return escapePath("projects", n.Project, "locations", n.Location)
}

func (n ClusterName) path() (string, error) {
	return escapePath("projects", n.Project, "locations", n.Location, "clusters", n.Cluster)
}

func (n PoolName) path() (string, error) {
	return escapePath("projects", n.Project, "locations", n.Location, "clusters", n.Cluster, "nodePools", n.Pool)
}

func (n OperationName) path() (string, error) {
	return escapePath("projects", n.Project, "locations", n.Location, "operations", n.Operation)
}

// escapePath joins segments to a path. It escapes all characters except those that Google's HTTP rules leave as they are. It
// fails for a segment that proxies and servers remove from paths.
func escapePath(segments ...string) (string, error) {
	var path strings.Builder
	for i, segment := range segments {
		if segment == "" || segment == "." || segment == ".." {
			return "", fmt.Errorf("%q is not a name in %s: pass the project, location and names of the cluster", segment, strings.Join(segments, "/"))
		}
		if i > 0 {
			path.WriteByte('/')
		}
		for _, b := range []byte(segment) {
			if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-_.~", b) >= 0 {
				path.WriteByte(b)
			} else {
				fmt.Fprintf(&path, "%%%02X", b)
			}
		}
	}
	return path.String(), nil
}

var (
	projectPattern  = compileLater(`^(?:[a-z0-9][a-z0-9.-]*:)?[a-z0-9][a-z0-9-]*$`)      // a project of a domain: "example.com:project"
	locationPattern = compileLater(`^[a-z]+(?:-[a-z]+)+[0-9]+(?:-(?:ai[0-9]+)?[a-z])?$`) // a zone for AI: "us-central1-ai1a"
	namePattern     = compileLater(`^[a-z0-9][a-z0-9-]*$`)
)

// ParseContext returns the cluster that gcloud named a kubeconfig entry for: gke_PROJECT_LOCATION_CLUSTER. ok is false for other
// names, for example those of renamed contexts.
func ParseContext(name string) (cluster ClusterName, ok bool) {
	parts := strings.Split(name, "_") // none of the names may contain an underscore
	if len(parts) != 4 || parts[0] != "gke" {
		return ClusterName{}, false
	}
	cluster = ClusterName{Project: parts[1], Location: parts[2], Cluster: parts[3]}
	if !projectPattern().MatchString(cluster.Project) || !locationPattern().MatchString(cluster.Location) || !namePattern().MatchString(cluster.Cluster) {
		return ClusterName{}, false
	}
	return cluster, true
}

// Instance is a machine of Compute Engine.
type Instance struct{ Project, Zone, Name string }

// Region returns the region of the instance's zone: "us-central1" for "us-central1-a".
func (i Instance) Region() string { return i.Zone[:max(0, strings.LastIndexByte(i.Zone, '-'))] }

// ParseProviderID returns the instance of a node from its spec.providerID: gce://PROJECT/ZONE/INSTANCE. ok is false for nodes of
// other clouds.
func ParseProviderID(id string) (instance Instance, ok bool) {
	rest, ok := strings.CutPrefix(id, "gce://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return Instance{}, false
	}
	instance = Instance{Project: parts[0], Zone: parts[1], Name: parts[2]}
	if !projectPattern().MatchString(instance.Project) || !locationPattern().MatchString(instance.Zone) || !namePattern().MatchString(instance.Name) {
		return Instance{}, false
	}
	return instance, true
}

// PoolLabel is the label of nodes with the name of their pool.
const PoolLabel = "cloud.google.com/gke-nodepool"

// PoolOf returns the name of the pool that a node with the labels belongs to, or "" if the node is not of GKE.
func PoolOf(labels map[string]string) string { return labels[PoolLabel] }

// Target is the object that an operation changes.
type Target struct {
	// Project is a number or an ID.
	Project string
	// Location is a zone or a region. Links have "/zones/" before either of them.
	Location, Cluster string
	// Pool is "" for an operation on the whole cluster.
	Pool string
}

// compileLater is a copy of cloud.CompileLater. This client does not import pkg/cloud.
func compileLater(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var targetPattern = compileLater(`/projects/([^/]+)/(?:zones|locations)/([^/]+)/clusters/([^/]+)(?:/nodePools/([^/]+)(?:/.*)?)?$`)

// ParseTarget returns the target of an operation from its TargetLink. ok is false for a link of another form.
func ParseTarget(link string) (target Target, ok bool) {
	parsed, err := url.Parse(link)
	if err != nil {
		return Target{}, false
	}
	found := targetPattern().FindStringSubmatch(parsed.EscapedPath())
	if found == nil {
		return Target{}, false
	}
	for i := range found {
		if found[i], err = url.PathUnescape(found[i]); err != nil {
			return Target{}, false
		}
	}
	return Target{Project: found[1], Location: found[2], Cluster: found[3], Pool: found[4]}, true
}

// Concerns reports whether the target is the pool or its whole cluster. Projects are compared only if both are IDs or both are
// numbers, because a link has the number and a kubeconfig the ID. The API lists only operations of the project that it was asked
// for.
func (t Target) Concerns(pool PoolName) bool {
	sameKind := isNumber(t.Project) == isNumber(pool.Project)
	return (!sameKind || t.Project == pool.Project) &&
		t.Location == pool.Location && t.Cluster == pool.Cluster && (t.Pool == "" || t.Pool == pool.Pool)
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
