package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/deadline"
)

// Client sends requests to the GKE API. Several goroutines may use it. All its errors about requests are *Error.
type Client struct {
	endpoint *url.URL
	// signed adds the token. It follows no redirects, which http.Client does.
	signed    http.RoundTripper
	userAgent string
	remedy    string
	now       func() time.Time
	sleep     func(context.Context, time.Duration) error
	random    func() float64
	limits    limits
}

// Options are the options of New.
type Options struct {
	// Token is required.
	Token Token
	// Endpoint is the URL before "v1/". If it is empty, it is the value of the environment variable EndpointVariable or, without
	// that, DefaultEndpoint. It must begin with https, or with http for this machine.
	Endpoint string
	// UserAgent is sent with each request.
	UserAgent string
	// Transport sends the requests. nil means a transport like http.DefaultTransport, which uses the proxy of the environment.
	Transport http.RoundTripper
	// Now and Sleep are the clock for retries. nil means this machine's clock. Sleep returns early with an error if the context ends.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
}

// New returns a client. It sends no request. The error says what is wrong with the endpoint or the token.
func New(o Options) (*Client, error) {
	if o.Token == nil {
		return nil, errors.New("opening the GKE API: no credentials")
	}
	text := o.Endpoint
	for _, fallback := range []string{os.Getenv(EndpointVariable), DefaultEndpoint} {
		if text == "" {
			text = fallback
		}
	}
	endpoint, err := parseEndpoint(text)
	if err != nil {
		return nil, err
	}
	connection := o.Transport
	if connection == nil {
		connection = http.DefaultTransport
		if standard, ok := connection.(*http.Transport); ok {
			connection = standard.Clone()
		}
	}
	signed, err := o.Token.Wrap(guard{endpoint, deadline.Transport(connection)})
	if err != nil {
		return nil, fmt.Errorf("opening the GKE API: reading the credentials: %s: %s", redact(err.Error(), ""), o.Token.Remedy())
	}
	c := &Client{
		endpoint: endpoint, signed: signed, userAgent: o.UserAgent, remedy: o.Token.Remedy(),
		now: o.Now, sleep: o.Sleep, random: rand.Float64, limits: defaultLimits(),
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.sleep == nil {
		c.sleep = sleep
	}
	return c, nil
}

// sleep waits for a time, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// GetCluster reads a cluster with its node pools.
func (c *Client) GetCluster(ctx context.Context, name ClusterName) (*Cluster, error) {
	return send[Cluster](ctx, c, name, request{doing: "reading cluster " + name.Cluster, method: http.MethodGet})
}

// ListClusters lists the clusters of a location. The location "-" means all.
func (c *Client) ListClusters(ctx context.Context, location LocationName) (*ListClustersResponse, error) {
	return send[ListClustersResponse](ctx, c, location, request{doing: "listing the clusters of project " + location.Project, method: http.MethodGet, suffix: "/clusters"})
}

// GetNodePool reads a node pool.
func (c *Client) GetNodePool(ctx context.Context, name PoolName) (*NodePool, error) {
	return send[NodePool](ctx, c, name, request{doing: "reading " + name.describe(), method: http.MethodGet})
}

// ListNodePools lists the node pools of a cluster.
func (c *Client) ListNodePools(ctx context.Context, cluster ClusterName) ([]NodePool, error) {
	list, err := send[ListNodePoolsResponse](ctx, c, cluster, request{doing: "listing the node pools of cluster " + cluster.Cluster, method: http.MethodGet, suffix: "/nodePools"})
	if err != nil {
		return nil, err
	}
	return list.NodePools, nil
}

// UpdateNodePool starts an upgrade of a node pool and returns its operation.
func (c *Client) UpdateNodePool(ctx context.Context, name PoolName, update UpdateNodePoolRequest) (*Operation, error) {
	return send[Operation](ctx, c, name, request{doing: "upgrading " + name.describe(), method: http.MethodPut, body: update})
}

// RollbackNodePool starts the rollback of an upgrade that did not end, and returns its operation. GKE refuses it with ClassBusy
// while the upgrade's operation runs: call CancelOperation first, and wait until the operation is done.
func (c *Client) RollbackNodePool(ctx context.Context, name PoolName, rollback RollbackNodePoolUpgradeRequest) (*Operation, error) {
	return send[Operation](ctx, c, name, request{doing: "rolling back " + name.describe(), method: http.MethodPost, suffix: ":rollback", body: rollback})
}

// CompleteNodePoolUpgrade ends the soak of a blue-green upgrade, so that GKE deletes the old nodes.
func (c *Client) CompleteNodePoolUpgrade(ctx context.Context, name PoolName) error {
	_, err := send[empty](ctx, c, name, request{doing: "completing the upgrade of " + name.describe(), method: http.MethodPost, suffix: ":completeUpgrade", body: empty{}})
	return err
}

// CancelOperation asks GKE to stop an operation. GetOperation reports when it has stopped.
func (c *Client) CancelOperation(ctx context.Context, name OperationName) error {
	_, err := send[empty](ctx, c, name, request{doing: "cancelling " + name.Operation, method: http.MethodPost, suffix: ":cancel", body: empty{}})
	return err
}

// GetOperation reads an operation. A failed operation is no error: see Operation.Error.
func (c *Client) GetOperation(ctx context.Context, name OperationName) (*Operation, error) {
	return send[Operation](ctx, c, name, request{doing: "reading " + name.Operation, method: http.MethodGet})
}

// ListOperations lists the running and recent operations of a location. The location "-" means all.
func (c *Client) ListOperations(ctx context.Context, location LocationName) (*ListOperationsResponse, error) {
	return send[ListOperationsResponse](ctx, c, location, request{doing: "listing the operations of project " + location.Project, method: http.MethodGet, suffix: "/operations"})
}

// GetServerConfig lists the versions that GKE offers at a location.
func (c *Client) GetServerConfig(ctx context.Context, location LocationName) (*ServerConfig, error) {
	return send[ServerConfig](ctx, c, location, request{doing: "reading the versions that GKE offers in " + location.Location, method: http.MethodGet, suffix: "/serverConfig"})
}

// FetchNodePoolUpgradeInfo reads the automatic upgrades of a node pool.
func (c *Client) FetchNodePoolUpgradeInfo(ctx context.Context, name PoolName) (*NodePoolUpgradeInfo, error) {
	return send[NodePoolUpgradeInfo](ctx, c, name, request{doing: "reading the automatic upgrades of " + name.describe(), method: http.MethodGet, suffix: ":fetchNodePoolUpgradeInfo"})
}

// describe returns the pool as text for people.
func (n PoolName) describe() string { return "node pool " + n.Pool + " of cluster " + n.Cluster }

// send sends a request and returns its answer.
func send[T any](ctx context.Context, c *Client, name interface{ path() (string, error) }, r request) (*T, error) {
	path, err := name.path()
	if err != nil {
		return nil, &Error{Class: ClassInvalid, text: r.doing + ": " + err.Error()}
	}
	r.path = path + r.suffix
	if r.body != nil {
		if r.encoded, err = json.Marshal(r.body); err != nil {
			return nil, &Error{Class: ClassInvalid, text: r.doing + ": writing the request: " + err.Error()}
		}
	}
	return sendWithRetries[T](ctx, c, r)
}
