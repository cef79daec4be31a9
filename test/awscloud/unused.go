package awscloud

import (
	"net"
	"net/http"
	"sync"
)

// unusedConns are the connections on which no request has come yet. A client has some in stock, and a server that shuts down
// takes those for busy until they are five seconds old (https://go.dev/issue/22682).
type unusedConns struct {
	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]bool
	closed bool
}

// note is the server's ConnState.
func (u *unusedConns) note(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, conn)
	case u.closed:
		_ = conn.Close() // nobody waits for anything on it
	default:
		u.conns[conn] = true
	}
}

// close closes those that there are and those to come.
func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for conn := range u.conns {
		_ = conn.Close() // nobody waits for anything on it
	}
}
