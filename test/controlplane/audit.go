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

// Event is one request that the API server has answered, as its audit log tells it: the fields of
// audit.k8s.io/v1 Event that tests ask for.
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
	RequestObject  json.RawMessage `json:"requestObject"` // the body, of requests that change something
	Received       time.Time       `json:"requestReceivedTimestamp"`
	Completed      time.Time       `json:"stageTimestamp"`
}

// ObjectRef is what a request was about. Name and Namespace are empty for lists, and Name where the server chose it.
type ObjectRef struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// ResponseStatus is the answer: the HTTP code, and of an error its reason and message.
type ResponseStatus struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Mutating says that the request could change something, had it not been a dry run.
func (e Event) Mutating() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Eviction says that the request asked for a pod's eviction.
func (e Event) Eviction() bool {
	return e.Verb == "create" && e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "eviction"
}

// Component says that the request was a component's of the control plane, the simulated kubelets included.
func (e Event) Component() bool {
	return e.User.Username == "system:apiserver" || slices.Contains(
		[]string{controllerManagerUser, schedulerUser, kwokUser}, e.User.Username)
}

// DryRun says that the request was to have no effect: by its query, or by the delete options in its body, which is where
// an eviction says it.
func (e Event) DryRun() bool {
	if uri, err := url.ParseRequestURI(e.RequestURI); err == nil && uri.Query().Has("dryRun") {
		return true
	}
	var body struct {
		DryRun        []string `json:"dryRun"`
		DeleteOptions struct {
			DryRun []string `json:"dryRun"`
		} `json:"deleteOptions"`
	}
	// A body that is no object, such as a JSON patch, says nothing about dry runs.
	if json.Unmarshal(e.RequestObject, &body) != nil {
		return false
	}
	return len(body.DryRun)+len(body.DeleteOptions.DryRun) > 0
}

// markerAgent begins the user agent of the requests by which AuditEvents finds the end of the log.
const markerAgent = "audit-marker/"

// auditLog is what was read of the audit log so far.
type auditLog struct {
	mu     sync.Mutex
	offset int64 // where the next line begins
	events []Event
}

// AuditEvents returns the requests answered so far, in the order of the log. Every request whose answer
// the caller has seen is among them. It returns an error when the log cannot be read, or when ctx ends first.
func (c *Cluster) AuditEvents(ctx context.Context) ([]Event, error) {
	c.audit.mu.Lock() // also while the log is marked: no other reader may pass by the mark
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

// markAuditLog makes a request that can be told from all others: by its user agent.
func (c *Cluster) markAuditLog(ctx context.Context, userAgent string) error {
	return c.client.CoreV1().RESTClient().Get().Resource("namespaces").Name(metav1.NamespaceDefault).
		SetHeader("User-Agent", userAgent).Do(ctx).Error()
}

// decodeAudit reads whole lines, and leaves out the marks of earlier calls.
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
