package awscloud

import (
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// Request is one call that reached the stand-in.
type Request struct {
	Time      time.Time         `json:"time"`
	Service   string            `json:"service"` // from the credential scope: autoscaling, ec2, eks, iam, ssm, sts
	Region    string            `json:"region"`
	Operation string            `json:"operation"`
	Mutating  bool              `json:"mutating"` // the request asked for a change; a DryRun does not
	Params    map[string]string `json:"params,omitempty"`
	Status    int               `json:"status"`         // HTTP status; 0 when the connection was closed without an answer
	Code      string            `json:"code,omitempty"` // error code; empty on success
	UserAgent string            `json:"userAgent,omitempty"`
}

// requestLog keeps every request. If out is set, it also writes each request to out as a line of JSON.
type requestLog struct {
	out io.Writer

	mu       sync.Mutex // guards requests and the writes to out
	requests []Request
}

func (l *requestLog) add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
	if l.out != nil {
		_ = json.NewEncoder(l.out).Encode(r) // an error of the log must not make the request fail
	}
}

func (l *requestLog) all() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}
