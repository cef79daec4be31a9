package gkecloud

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane/programs"
)

const (
	projectNumber = "512345678901"
	accessToken   = "ya29.stand-in-access-token" //nolint:gosec // of the stand-in
)

// Cloud is the stand-in with one cluster.
type Cloud struct {
	options   Options
	discovery discovery
	server    *httptest.Server
	stop      context.CancelFunc
	ctx       context.Context //nolint:containedctx // operations outlive the requests that begin them
	running   sync.WaitGroup

	mu         sync.Mutex
	pools      []*pool
	operations []*operation
	serial     int64
	log        []string
	// lost is how many answers to writes are lost: the write takes effect, and the connection is cut.
	lost int
	// denied are the paths that the caller may not use, by their last part.
	denied []string
}

// Start starts the stand-in. It runs until Stop.
func Start(ctx context.Context, o Options) (*Cloud, error) {
	root, err := programs.Root(ctx)
	if err != nil {
		return nil, err
	}
	d, err := readDiscovery(filepath.Join(root, "pkg/cloud/gke/container/testdata/container-api.json"))
	if err != nil {
		return nil, err
	}
	c := &Cloud{options: o.withDefaults(), discovery: d}
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.server = httptest.NewServer(c.routes())
	return c, nil
}

// Stop ends the stand-in and its operations.
func (c *Cloud) Stop() {
	c.stop()
	c.running.Wait()
	c.server.Close()
}

// Name returns GKE's full name of the cluster.
func (c *Cloud) Name() string {
	return fmt.Sprintf("projects/%s/locations/%s/clusters/%s", c.options.Project, c.options.Location, c.options.Cluster)
}

// URL returns the address of the stand-in.
func (c *Cloud) URL() string { return c.server.URL }

// Env writes the key of a service account into the folder, and returns the environment that makes programs use the stand-in.
func (c *Cloud) Env(dir string) ([]string, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "upgrader@acme-prod.iam.gserviceaccount.com", "private_key_id": "1", "token_uri": c.server.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the service account: %w", err)
	}
	path := filepath.Join(dir, "service-account.json")
	if err := os.WriteFile(path, account, 0o600); err != nil {
		return nil, fmt.Errorf("writing the key file of the service account: %w", err)
	}
	return []string{"GOOGLE_APPLICATION_CREDENTIALS=" + path, "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER=" + c.server.URL + "/"}, nil
}

// LoseAnswers cuts the connection instead of answering the next n writes, which take effect.
func (c *Cloud) LoseAnswers(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = n
}

// Deny refuses requests whose path ends with one of the parts.
func (c *Cloud) Deny(parts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = parts
}

// Writes returns the writes that were accepted, as METHOD PATH, oldest first.
func (c *Cloud) Writes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// Upgrade starts an upgrade of a pool as another user would, and returns the name of its operation.
func (c *Cloud) Upgrade(pool, version string) (string, error) {
	c.mu.Lock()
	p := c.findPool(pool)
	etag := ""
	if p != nil {
		etag = fmt.Sprintf("etag-%d", p.etag)
	}
	c.mu.Unlock()
	answer, fault := c.update(pool, map[string]any{"nodeVersion": version, "imageType": "COS_CONTAINERD", "etag": etag})
	if fault != nil {
		return "", errors.New(fault.message)
	}
	return answer["name"].(string), nil //nolint:forcetypeassert // operations have a name
}

// BeginBeside begins an operation of the kind beside the running ones, as GKE does to repair nodes. pool is "" for the whole cluster.
// The operation runs until end is called.
func (c *Cloud) BeginBeside(kind, pool string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	op := &operation{name: fmt.Sprintf("operation-beside-%d", c.serial), kind: kind, status: "RUNNING", pool: pool, start: time.Now()}
	c.operations = append(c.operations, op)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		op.status, op.end = "DONE", time.Now()
	}
}

// fault is an error answer.
type fault struct {
	code            int
	status, message string
}

func (c *Cloud) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || strings.Count(r.FormValue("assertion"), ".") != 2 {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"access_token": accessToken, "token_type": "Bearer", "expires_in": 3600})
	})
	const location = "/v1/projects/{project}/locations/{location}"
	mux.HandleFunc("GET "+location+"/clusters", c.answer(false, func(r *http.Request, _ map[string]any) (map[string]any, *fault) {
		if r.PathValue("project") != c.options.Project {
			return map[string]any{}, nil
		}
		return map[string]any{"clusters": []any{c.clusterJSON()}}, nil
	}))
	mux.HandleFunc("GET "+location+"/operations", c.answer(false, func(*http.Request, map[string]any) (map[string]any, *fault) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var list []any
		for _, op := range c.operations {
			list = append(list, op.json(c))
		}
		return map[string]any{"operations": list}, nil
	}))
	mux.HandleFunc("GET "+location+"/serverConfig", c.answer(false, func(*http.Request, map[string]any) (map[string]any, *fault) {
		return map[string]any{"validNodeVersions": c.options.ValidVersions, "defaultClusterVersion": c.options.ControlPlane}, nil
	}))
	mux.HandleFunc("GET "+location+"/operations/{operation}", c.answer(false, func(r *http.Request, _ map[string]any) (map[string]any, *fault) {
		c.mu.Lock()
		defer c.mu.Unlock()
		op := c.findOperation(r.PathValue("operation"))
		if op == nil {
			return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found: operation " + r.PathValue("operation") + "."}
		}
		return op.json(c), nil
	}))
	mux.HandleFunc("POST "+location+"/operations/{operation}", c.answer(true, func(r *http.Request, _ map[string]any) (map[string]any, *fault) {
		name, isCancel := strings.CutSuffix(r.PathValue("operation"), ":cancel")
		if !isCancel {
			return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found."}
		}
		return c.cancel(name)
	}))
	mux.HandleFunc("GET "+location+"/clusters/{cluster}", c.answer(false, func(*http.Request, map[string]any) (map[string]any, *fault) { return c.clusterJSON(), nil }))
	mux.HandleFunc("GET "+location+"/clusters/{cluster}/nodePools/{pool}", c.answer(false, func(r *http.Request, _ map[string]any) (map[string]any, *fault) {
		c.mu.Lock()
		defer c.mu.Unlock()
		name, asksUpgrades := strings.CutSuffix(r.PathValue("pool"), ":fetchNodePoolUpgradeInfo")
		p := c.findPool(name)
		switch {
		case p == nil:
			return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found: " + r.URL.Path + "."}
		case asksUpgrades:
			return map[string]any{"upgradeDetails": c.upgradesJSON(p)}, nil
		}
		return p.json(c.options.Project, c.options.Cluster), nil
	}))
	mux.HandleFunc("PUT "+location+"/clusters/{cluster}/nodePools/{pool}", c.answer(true, func(r *http.Request, body map[string]any) (map[string]any, *fault) {
		return c.update(r.PathValue("pool"), body)
	}))
	mux.HandleFunc("POST "+location+"/clusters/{cluster}/nodePools/{pool}", c.answer(true, func(r *http.Request, body map[string]any) (map[string]any, *fault) {
		name, verb, _ := strings.Cut(r.PathValue("pool"), ":")
		switch verb {
		case "rollback":
			return c.rollBack(name, body)
		case "completeUpgrade":
			return c.complete(name)
		default:
			return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found."}
		}
	}))
	return mux
}

// answer returns the handler of a method: it checks the token, the permission and the cluster, and decodes the body.
func (c *Cloud) answer(writes bool, run func(*http.Request, map[string]any) (map[string]any, *fault)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(c.options.Latency)
		body := map[string]any{}
		got, failed := map[string]any(nil), c.refuse(r)
		if text, err := io.ReadAll(r.Body); failed == nil && len(text) > 0 {
			if err = errors.Join(err, json.Unmarshal(text, &body)); err != nil {
				failed = &fault{http.StatusBadRequest, "INVALID_ARGUMENT", "Invalid JSON payload received. " + err.Error()}
			}
		}
		if failed == nil {
			got, failed = run(r, body)
		}
		if failed != nil {
			writeJSON(w, failed.code, map[string]any{"error": map[string]any{"code": failed.code, "message": failed.message, "status": failed.status}})
			return
		}
		if writes && c.noteWrite(r) {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		writeJSON(w, http.StatusOK, got)
	}
}

// refuse returns why the request is refused before it is read, nil if it is not.
func (c *Cloud) refuse(r *http.Request) *fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	cluster, location := r.PathValue("cluster"), r.PathValue("location")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+accessToken:
		return &fault{http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials."}
	case slices.ContainsFunc(c.denied, func(part string) bool { return strings.HasSuffix(r.URL.Path, part) }):
		return &fault{http.StatusForbidden, "PERMISSION_DENIED", "Required \"container.operations.list\" permission(s) for \"" + r.URL.Path + "\"."}
	case cluster != "" && cluster != c.options.Cluster, location != "-" && location != c.options.Location, r.PathValue("project") != c.options.Project:
		return &fault{http.StatusNotFound, "NOT_FOUND", "Not found: " + strings.TrimPrefix(r.URL.Path, "/v1/") + "."}
	}
	return nil
}

// noteWrite logs an accepted write, and reports whether its answer is lost.
func (c *Cloud) noteWrite(r *http.Request) (lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, r.Method+" "+r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if c.lost > 0 {
		c.lost--
		return true
	}
	return false
}

// update starts an upgrade of a pool.
func (c *Cloud) update(name string, body map[string]any) (map[string]any, *fault) {
	if err := c.CheckUpdate(body); err != nil {
		return nil, &fault{http.StatusBadRequest, "INVALID_ARGUMENT", err.Error()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.findPool(name)
	version, _ := body["nodeVersion"].(string)
	etag, hasEtag := body["etag"].(string)
	switch {
	case p == nil:
		return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found: node pool " + name + "."}
	case version == "" || body["imageType"] == nil:
		return nil, &fault{http.StatusBadRequest, "INVALID_ARGUMENT", "node_version and image_type are required."}
	case !slices.Contains(c.options.ValidVersions, version):
		return nil, &fault{http.StatusBadRequest, "INVALID_ARGUMENT", "Version \"" + version + "\" is invalid."}
	}
	if busy := c.runningOperation(); busy != nil {
		return nil, &fault{http.StatusBadRequest, "FAILED_PRECONDITION", "Cluster is running incompatible operation " + busy.name + "."}
	}
	if hasEtag && etag != fmt.Sprintf("etag-%d", p.etag) {
		return nil, &fault{http.StatusConflict, "ABORTED", "The etag does not match the current one."}
	}
	if settings, ok := body["upgradeSettings"].(map[string]any); ok {
		p.Settings = settings
	}
	return c.replaceAll(p, version, false).json(c), nil
}

// rollBack takes the nodes that a cancelled or failed upgrade has replaced back to the earlier version. If the pool's last upgrade
// succeeded, it changes nothing.
func (c *Cloud) rollBack(name string, body map[string]any) (map[string]any, *fault) {
	if err := c.discovery.check("RollbackNodePoolUpgradeRequest", body); err != nil {
		return nil, &fault{http.StatusBadRequest, "INVALID_ARGUMENT", err.Error()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.findPool(name)
	if p == nil {
		return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found: node pool " + name + "."}
	}
	if busy := c.runningOperation(); busy != nil {
		return nil, &fault{http.StatusBadRequest, "FAILED_PRECONDITION", "Cluster is running incompatible operation " + busy.name + "."}
	}
	version := p.version
	for _, op := range c.operations {
		if op.pool != p.Name {
			continue
		}
		version = op.target
		if op.statusMessage != "" || op.failure != nil {
			version = op.initial
		}
	}
	return c.replaceAll(p, version, true).json(c), nil
}

// replaceAll begins an operation that gives all nodes of the pool the version. The caller has the lock.
func (c *Cloud) replaceAll(p *pool, version string, isRollback bool) *operation {
	op := c.begin("UPGRADE_NODES", p)
	op.initial, op.target, op.isRollback = p.version, version, isRollback
	if !isRollback {
		p.green = version
	}
	for _, zone := range p.Zones {
		op.total += len(p.outdated(zone, version))
	}
	if !c.options.KeepsOldVersion {
		p.version = version
	}
	c.running.Go(func() { c.end(p, op, c.upgrade(c.ctx, p, op)) })
	return op
}

// cancel asks an operation to stop. Nodes that are being replaced are still finished.
func (c *Cloud) cancel(name string) (map[string]any, *fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op := c.findOperation(name)
	switch {
	case op == nil:
		return nil, &fault{http.StatusNotFound, "NOT_FOUND", "Not found: operation " + name + "."}
	case op.status == "DONE":
		return nil, &fault{http.StatusBadRequest, "FAILED_PRECONDITION", "Operation " + name + " is already done."}
	case op.pool != "" && c.findPool(op.pool).phase == deletingBlue:
		return nil, &fault{http.StatusBadRequest, "FAILED_PRECONDITION", "Operation " + name + " deletes the blue pool and cannot be cancelled."}
	case op.status == "RUNNING":
		op.status = "ABORTING"
		close(op.cancelled)
	}
	return map[string]any{}, nil
}

func (c *Cloud) runningOperation() *operation {
	for _, op := range c.operations {
		if op.status != "DONE" {
			return op
		}
	}
	return nil
}

func (c *Cloud) findOperation(name string) *operation {
	for _, op := range c.operations {
		if op.name == name {
			return op
		}
	}
	return nil
}

// clusterJSON returns the cluster as GKE shows it.
func (c *Cloud) clusterJSON() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pools []any
	for _, p := range c.pools {
		pools = append(pools, p.json(c.options.Project, c.options.Cluster))
	}
	return map[string]any{
		"name": c.options.Cluster, "location": c.options.Location, "status": "RUNNING", "currentMasterVersion": c.options.ControlPlane,
		"endpoint": "34.1.2.3", "nodePools": pools,
		"maintenancePolicy": map[string]any{"window": map[string]any{"dailyMaintenanceWindow": map[string]any{"startTime": "03:00", "duration": "PT4H0M0S"}}},
	}
}

// upgradesJSON returns the upgrades of a pool that GKE reports.
func (c *Cloud) upgradesJSON(p *pool) []any {
	var list []any
	for _, op := range c.operations {
		if op.pool != p.Name || c.options.HidesTargets {
			continue
		}
		state := map[string]string{"DONE": "SUCCEEDED"}[op.status]
		if state == "" {
			state = "RUNNING"
		}
		list = append(list, map[string]any{
			"state": state, "startType": "MANUAL", "initialVersion": op.initial, "targetVersion": op.target, "startTime": op.start.UTC().Format(time.RFC3339Nano),
		})
	}
	return list
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the client is gone
}
