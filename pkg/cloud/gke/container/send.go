package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"
)

// request is one request to the API.
type request struct {
	// doing is what the request does, for errors: "reading cluster prod".
	doing  string
	method string
	// suffix follows the path of the resource: "/nodePools", ":rollback".
	suffix string
	body   any

	path    string
	encoded []byte
}

func (r request) isRead() bool { return r.method == http.MethodGet }

// limits are the limits of a client.
type limits struct {
	// attempts is the number of times that a read is sent.
	attempts int
	// firstWait is the wait after the first attempt. Each later wait is twice as long, up to longestWait.
	firstWait, longestWait time.Duration
	// longestRetryAfter is the longest wait that the server may ask for. For longer ones, the read fails.
	longestRetryAfter time.Duration
	// answer is the longest time that one attempt may take.
	answer time.Duration
	// size is the largest answer in bytes, after decompression.
	size int64
}

func defaultLimits() limits {
	return limits{
		attempts: 6, firstWait: 500 * time.Millisecond, longestWait: 16 * time.Second, longestRetryAfter: time.Minute,
		answer: time.Minute, size: 32 << 20,
	}
}

// sendWithRetries sends a request and decodes its answer. It sends reads again after errors that pass. It sends them once more
// after the answer 401, because client-go runs the credential plugin again then.
func sendWithRetries[T any](ctx context.Context, c *Client, r request) (*T, error) {
	for attempt := 1; ; attempt++ {
		answer, failure := sendOnce[T](ctx, c, r)
		if failure == nil {
			return answer, nil
		}
		wait := c.chooseWait(attempt, failure)
		until, limited := ctx.Deadline()
		passes := failure.temporary || attempt == 1 && failure.Code == http.StatusUnauthorized
		if !r.isRead() || !passes || attempt >= c.limits.attempts ||
			failure.RetryAfter > c.limits.longestRetryAfter || limited && c.now().Add(wait).After(until) {
			return nil, failure
		}
		if c.sleep(ctx, wait) != nil {
			return nil, failure
		}
	}
}

// chooseWait returns the wait before the next attempt. It is between half and all of a time that doubles with each attempt, and
// not shorter than the server asked for.
func (c *Client) chooseWait(attempt int, failure *Error) time.Duration {
	longest := min(c.limits.firstWait<<(attempt-1), c.limits.longestWait)
	return max(longest/2+time.Duration(c.random()*float64(longest/2)), failure.RetryAfter)
}

// response is an answer with its whole body.
type response struct {
	*http.Response
	body []byte
}

// sendOnce sends a request once and decodes its answer.
func sendOnce[T any](ctx context.Context, c *Client, r request) (*T, *Error) {
	within, cancel := context.WithTimeout(ctx, c.limits.answer)
	defer cancel()
	reached := &progress{}
	type result struct {
		response
		err error
	}
	done := make(chan result, 1)
	go func() { // a credential plugin or token server may not end with the context
		got, err := c.exchange(within, r, reached)
		done <- result{got, err}
	}()
	var got result
	select {
	case got = <-done:
	case <-within.Done():
		got.err = within.Err()
	}
	if got.err != nil {
		return nil, c.explainFailure(ctx, r, reached, got.err)
	}
	if got.StatusCode != http.StatusOK {
		return nil, c.explainAnswer(r, reached, got.response)
	}
	return decode[T](c, r, reached, got.response)
}

// exchange sends a request and reads the body of its answer.
func (c *Client) exchange(ctx context.Context, r request, reached *progress) (response, error) {
	ctx = context.WithValue(ctx, progressKey{}, reached)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { reached.sent.Store(true) }})
	var body io.Reader
	if r.encoded != nil {
		body = bytes.NewReader(r.encoded)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.endpoint.String()+"v1/"+r.path, body)
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Accept", "application/json")
	if r.encoded != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.userAgent != "" {
		req.Header.Set("User-Agent", c.userAgent)
	}
	resp, err := c.signed.RoundTrip(req)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	reached.sent.Store(true) // also for transports without traces
	content, err := io.ReadAll(io.LimitReader(resp.Body, c.limits.size+1))
	if err == nil && int64(len(content)) > c.limits.size {
		err = errTooLarge
	}
	return response{resp, content}, err
}

var errTooLarge = errors.New("the answer is too large")

// named is an answer that always has a name.
type named interface{ identity() string }

func (c *Cluster) identity() string   { return c.Name }
func (p *NodePool) identity() string  { return p.Name }
func (o *Operation) identity() string { return o.Name }

// decode decodes an answer with the status 200. An error of the API with that status is an error, too.
func decode[T any](c *Client, r request, reached *progress, got response) (*T, *Error) {
	if !bytes.HasPrefix(bytes.TrimSpace(got.body), []byte("{")) {
		return nil, c.explainAnswer(r, reached, got)
	}
	answer := new(T)
	err := json.Unmarshal(got.body, answer)
	one, isNamed := any(answer).(named)
	if isNamed && err == nil && one.identity() != "" {
		return answer, nil // an operation that failed has a field "error", too
	}
	if parsed, ok := parseAPIError(got.body); ok {
		return nil, c.explainAPIError(r, reached, got, parsed)
	}
	switch {
	case err != nil:
		return nil, unexpectedError(r, reached, "the answer is not complete or not in the format of the API: "+causeText(err))
	case isNamed:
		return nil, unexpectedError(r, reached, "the answer has no name")
	}
	return answer, nil
}

// parseRetryAfter returns the time that a server asks to wait, in seconds or as a date. It is 0 without a valid header.
func parseRetryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(header), 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// sizeText returns a number of bytes as text for people.
func sizeText(bytes int64) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
