package container

import (
	"net/http"
	"strings"
	"testing"
)

func TestParseContext(t *testing.T) {
	cases := map[string]struct {
		want ClusterName
		ok   bool
	}{
		"gke_acme-1_europe-west1_prod":                       {ClusterName{"acme-1", "europe-west1", "prod"}, true},
		"gke_acme_us-central1-a_a-b-c":                       {ClusterName{"acme", "us-central1-a", "a-b-c"}, true},
		"gke_acme_northamerica-northeast1-b_c":               {ClusterName{"acme", "northamerica-northeast1-b", "c"}, true},
		"gke_example.com:acme_europe-west1_prod":             {ClusterName{"example.com:acme", "europe-west1", "prod"}, true},
		"gke_123456789012_europe-west1_prod":                 {ClusterName{"123456789012", "europe-west1", "prod"}, true},
		"prod":                                               {},
		"gke_acme_europe-west1":                              {},
		"gke_acme_europe-west1_prod_2":                       {},
		"gke__europe-west1_prod":                             {},
		"gke_acme__prod":                                     {},
		"gke_acme_-_prod":                                    {},
		"gke_acme_europe_prod":                               {},
		"gke_acme_europe-west1_":                             {},
		"gke_acme_europe-west1_../x":                         {},
		"gke_a/b_europe-west1_prod":                          {},
		"connectgateway_acme_global_prod":                    {},
		"arn:aws:eks:eu-west-1:1234:cluster/gke_a_b-c1_d":    {},
		"GKE_acme_europe-west1_prod":                         {},
		"gke_acme_europe-west1_prod\nx":                      {},
		"gke_acme_europe-west1_Prod":                         {},
		"gke_acme_europe-west1_" + strings.Repeat("_", 1000): {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := ParseContext(name); got != c.want || ok != c.ok {
				t.Errorf("got %v, %v", got, ok)
			}
		})
	}
}

func TestParseProviderID(t *testing.T) {
	cases := map[string]struct {
		want Instance
		ok   bool
	}{
		"gce://acme/us-central1-a/gke-prod-web-1f2e-x9z0": {Instance{"acme", "us-central1-a", "gke-prod-web-1f2e-x9z0"}, true},
		"gce://example.com:acme/us-central1-a/n":          {Instance{"example.com:acme", "us-central1-a", "n"}, true},
		"gce://acme/us-central1-ai1a/gke-tpu-1f2e-x9z0":   {Instance{"acme", "us-central1-ai1a", "gke-tpu-1f2e-x9z0"}, true},
		"gce://acme/us-central1-ai1/n":                    {},
		"aws:///eu-west-1a/i-0123":                        {},
		"gce:///us-central1-a/n":                          {},
		"gce://acme/us-central1-a":                        {},
		"gce://acme/us-central1-a/n/m":                    {},
		"gce://acme/us-central1-a/":                       {},
		"gce://acme/zone/n":                               {},
		"gce://acme/us-central1-a/n%2Fm":                  {},
		"":                                                {},
		"x-gce://acme/us-central1-a/n":                    {},
	}
	for id, c := range cases {
		t.Run(id, func(t *testing.T) {
			if got, ok := ParseProviderID(id); got != c.want || ok != c.ok {
				t.Errorf("got %v, %v", got, ok)
			}
		})
	}
	if got := (Instance{Zone: "us-central1-a"}).Region(); got != "us-central1" {
		t.Errorf("the region is %q", got)
	}
	if got := (Instance{Zone: "us-central1-ai1a"}).Region(); got != "us-central1" {
		t.Errorf("the region of a zone for AI is %q", got)
	}
	if got := (Instance{}).Region(); got != "" {
		t.Errorf("the region of no zone is %q", got)
	}
}

func TestParseTarget(t *testing.T) {
	const base = "https://container.googleapis.com/v1/projects/123456789012/"
	cases := map[string]struct {
		want Target
		ok   bool
	}{
		base + "locations/us-central1/clusters/c":                                                                 {Target{"123456789012", "us-central1", "c", ""}, true},
		base + "zones/us-central1/clusters/c/nodePools/n":                                                         {Target{"123456789012", "us-central1", "c", "n"}, true},
		base + "zones/us-central1-c/clusters/c/nodePools/n/node/my-node":                                          {Target{"123456789012", "us-central1-c", "c", "n"}, true},
		"https://container.googleapis.com/v1beta1/projects/example.com%3Aacme/zones/z/clusters/c/nodePools/a%2Fb": {Target{"example.com:acme", "z", "c", "a/b"}, true},
		"http://127.0.0.1:8080/v1/projects/acme/locations/z/clusters/c":                                           {Target{"acme", "z", "c", ""}, true},
		base + "zones/us-central1-c":                                                                              {},
		base + "zones/z/clusters/c/somethingNew/n":                                                                {},
		base + "zones//clusters/c":                                                                                {},
		"":                                                                                                        {},
		"%zz":                                                                                                     {},
	}
	for link, c := range cases {
		t.Run(link, func(t *testing.T) {
			if got, ok := ParseTarget(link); got != c.want || ok != c.ok {
				t.Errorf("got %+v, %v", got, ok)
			}
		})
	}
}

func TestTargetConcernsPool(t *testing.T) {
	pool := testPool()
	numbered := pool
	numbered.Project = "123456789012"
	cases := map[string]struct {
		target Target
		pool   PoolName
		want   bool
	}{
		"same pool":               {Target{"acme", "europe-west1", "prod", "web"}, pool, true},
		"a project's number":      {Target{"123456789012", "europe-west1", "prod", "web"}, pool, true},
		"number of the pool":      {Target{"acme", "europe-west1", "prod", "web"}, numbered, true},
		"the whole cluster":       {Target{"123456789012", "europe-west1", "prod", ""}, pool, true},
		"another project":         {Target{"other", "europe-west1", "prod", "web"}, pool, false},
		"another number":          {Target{"999", "europe-west1", "prod", "web"}, numbered, false},
		"another pool":            {Target{"123456789012", "europe-west1", "prod", "web2"}, pool, false},
		"another cluster":         {Target{"123456789012", "europe-west1", "prod2", "web"}, pool, false},
		"cluster of another zone": {Target{"123456789012", "europe-west1-b", "prod", "web"}, pool, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.target.Concerns(c.pool); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestNamesAreEscapedInPaths(t *testing.T) {
	var path string
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		_, _ = w.Write([]byte(`{"name":"x"}`))
	})
	cases := map[string]string{
		"a/b":         "a%2Fb",
		"a%2Fb":       "a%252Fb",
		"a?x=y":       "a%3Fx%3Dy",
		"a#b":         "a%23b",
		"x:rollback":  "x%3Arollback",
		"a b":         "a%20b",
		"..%2F..":     "..%252F..",
		"ü":           "%C3%BC",
		"a\r\nHost:x": "a%0D%0AHost%3Ax",
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			pool := testPool()
			pool.Pool = name
			if _, err := client.GetNodePool(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			if want = "/v1/projects/acme/locations/europe-west1/clusters/prod/nodePools/" + want; path != want {
				t.Errorf("the path is %q, want %q", path, want)
			}
		})
	}
}

func TestNamesThatChangePathsAreRefused(t *testing.T) {
	client := newTestClient(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, name := range []string{"", ".", ".."} {
		pool := testPool()
		pool.Cluster = name
		_, err := client.GetNodePool(t.Context(), pool)
		if ClassOf(err) != ClassInvalid || !strings.Contains(err.Error(), "is not a name in projects/acme/") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNamesOfResources(t *testing.T) {
	pool := testPool()
	if got := pool.String(); got != "projects/acme/locations/europe-west1/clusters/prod/nodePools/web" {
		t.Error(got)
	}
	if got := pool.Operation("operation-1").String(); got != "projects/acme/locations/europe-west1/operations/operation-1" {
		t.Error(got)
	}
	if got := PoolOf(map[string]string{"cloud.google.com/gke-nodepool": "web"}); got != "web" {
		t.Error(got)
	}
	if got := PoolOf(nil); got != "" {
		t.Error(got)
	}
}
