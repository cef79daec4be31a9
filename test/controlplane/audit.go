package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Event is a request that the API server has answered, from its audit log. It has those fields of audit.k8s.io/v1 Event that tests
// need.
type Event struct {
	AuditID    types.UID `json:"auditID"`
	Stage      string    `json:"stage"`
	Verb       string    `json:"verb"`
	RequestURI string    `json:"requestURI"`
	UserAgent  string    `json:"userAgent"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	ObjectRef      ObjectRef       `json:"objectRef"`
	ResponseStatus ResponseStatus  `json:"responseStatus"`
	RequestObject  json.RawMessage `json:"requestObject"` // the body of requests that change something
	Received       time.Time       `json:"requestReceivedTimestamp"`
	Completed      time.Time       `json:"stageTimestamp"`
}

// ObjectRef is the object of a request. Name is empty for lists, and if the server chooses the name.
type ObjectRef struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// ResponseStatus is the answer: the HTTP code and, for an error, its reason and message.
type ResponseStatus struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// IsMutating reports whether the request changes something. It is also true for dry runs.
func (e Event) IsMutating() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// IsEviction reports whether the request is an eviction of a pod.
func (e Event) IsEviction() bool {
	return e.Verb == "create" && e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "eviction"
}

// IsFromComponent reports whether the request comes from a component of the control plane. The simulated kubelets are components.
func (e Event) IsFromComponent() bool {
	return e.User.Username == "system:apiserver" || slices.Contains(
		[]string{controllerManagerUser, schedulerUser, kwokUser}, e.User.Username)
}

// IsDryRun reports whether the request is a dry run. A dry run is requested in the query, or in the delete options of the body.
func (e Event) IsDryRun() bool {
	if uri, err := url.ParseRequestURI(e.RequestURI); err == nil && uri.Query().Has("dryRun") {
		return true
	}
	var body struct {
		DryRun        []string `json:"dryRun"`
		DeleteOptions struct {
			DryRun []string `json:"dryRun"`
		} `json:"deleteOptions"`
	}
	// A body that is not an object, such as a JSON patch, has no delete options.
	if json.Unmarshal(e.RequestObject, &body) != nil {
		return false
	}
	return len(body.DryRun)+len(body.DeleteOptions.DryRun) > 0
}

// markerAgent is the prefix of the user agent of the requests with which AuditEvents marks the end of the log.
const markerAgent = "audit-marker/"

// auditLog contains the events that were read so far from the audit log.
type auditLog struct {
	mu     sync.Mutex
	offset int64 // where the next line begins
	events []Event
}

// AuditEvents returns the requests that were answered so far, in the order of the log. It includes every request whose answer the
// caller has received. It returns an error if the log cannot be read, or if ctx ends first.
func (c *Cluster) AuditEvents(ctx context.Context) ([]Event, error) {
	c.audit.mu.Lock() // also while the marker is written: no other call may read past it
	defer c.audit.mu.Unlock()
	marker := markerAgent + string(uuid.NewUUID())
	if err := c.markAuditLog(ctx, marker); err != nil {
		return nil, fmt.Errorf("marking the audit log: %w", err)
	}
	var lines []byte
	err := poll(ctx, func(context.Context) (err error) {
		lines, err = readFrom(c.AuditLog(), c.audit.offset)
		if err != nil {
			return err
		}
		end := bytes.Index(lines, []byte(marker))
		if end < 0 {
			return errors.New("the mark has not arrived")
		}
		lines = lines[:bytes.LastIndexByte(lines[:end], '\n')+1]
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	events, err := decodeAudit(lines)
	if err != nil {
		return nil, err
	}
	c.audit.offset += int64(len(lines))
	c.audit.events = append(c.audit.events, events...)
	return slices.Clone(c.audit.events), nil
}

// readFrom reads a file from an offset, in bytes, to its end.
func readFrom(path string, offset int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// markAuditLog sends a request with a unique user agent.
func (c *Cluster) markAuditLog(ctx context.Context, userAgent string) error {
	return c.client.CoreV1().RESTClient().Get().Resource("namespaces").Name(metav1.NamespaceDefault).
		SetHeader("User-Agent", userAgent).Do(ctx).Error()
}

// decodeAudit decodes whole lines. It omits requests without an answer, and the markers of AuditEvents.
func decodeAudit(log []byte) ([]Event, error) {
	var events []Event
	for line := range bytes.Lines(log) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("decoding the audit log: %w: in %q", err, line)
		}
		if e.Stage == "ResponseComplete" && !strings.HasPrefix(e.UserAgent, markerAgent) {
			events = append(events, e)
		}
	}
	return events, nil
}
