package awscloud

import (
	"io"
	"net/http"
)

// PlainBodies is an HTTP client for the SDK that hides the WriteTo of request bodies. In smithy-go 1.28.8, WriteTo makes net/http
// close the connection when an answer arrives before the whole request has been sent.
type PlainBodies struct{ http.Client }

// Do sends a request.
func (p *PlainBodies) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body = struct{ io.ReadCloser }{req.Body}
	}
	return p.Client.Do(req)
}
