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

// gate leads an upgrade to its cloud. While another actor has the turn it holds requests back.
type gate struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy
	turns  sync.RWMutex
	// meet is told of each instance that the upgrade asks to terminate, before the cloud is.
	meet func(r *http.Request, instance string)
}

// openGate opens a gate to the cloud at the address.
func openGate(address string, meet func(r *http.Request, instance string)) (*gate, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cloud: %w", err)
	}
	g := &gate{meet: meet, proxy: &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0), // a client that ends in the middle of its request
	}}
	g.server = httptest.NewServer(g)
	return g, nil
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.turns.RLock()
	defer g.turns.RUnlock()
	if form, err := url.ParseQuery(string(body)); err == nil && form.Get("Action") == "TerminateInstanceInAutoScalingGroup" {
		g.meet(r, form.Get("InstanceId"))
	}
	g.proxy.ServeHTTP(w, r)
}

// turn waits until none of the upgrade's requests is under way and keeps others back until the function that it returns is called.
func (g *gate) turn() (end func()) {
	g.turns.Lock()
	return g.turns.Unlock
}

func (g *gate) env() []string { return []string{"AWS_ENDPOINT_URL=" + g.server.URL} }

func (g *gate) close() { g.server.Close() }
