package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
)

// proxy forwards an upgrade's requests to its cloud. While it is paused, requests wait.
type proxy struct {
	server   *httptest.Server
	reverse  *httputil.ReverseProxy
	requests sync.RWMutex
	// onTerminate is called for each request of the upgrade to terminate an instance, before the cloud gets it.
	onTerminate func(r *http.Request, instance string)
}

// openProxy opens a proxy to the cloud at the address.
func openProxy(address string, meet func(r *http.Request, instance string)) (*proxy, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cloud: %w", err)
	}
	p := &proxy{onTerminate: meet, reverse: &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0), // it reports clients that end in the middle of a request
	}}
	p.server = httptest.NewServer(p)
	return p, nil
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.requests.RLock()
	defer p.requests.RUnlock()
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") == "TerminateInstanceInAutoScalingGroup" {
		p.onTerminate(r, form.Get("InstanceId"))
	}
	p.reverse.ServeHTTP(w, r)
}

// pause waits until the upgrade has no request in flight. New requests wait until the returned function is called.
func (p *proxy) pause() (end func()) {
	p.requests.Lock()
	return p.requests.Unlock
}

func (p *proxy) env() []string { return []string{"AWS_ENDPOINT_URL=" + p.server.URL} }

func (p *proxy) close() { p.server.Close() }
