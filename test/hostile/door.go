package hostile

import (
	"net"
	"sync"
	"time"
)

// door is a listener that resets all connections while it is shut. It keeps the port, so that no other process can take it.
type door struct {
	net.Listener
	mu   sync.Mutex
	shut time.Time // until when the door is shut
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil || d.isOpen() {
			return conn, err
		}
		reset(conn)
	}
}

// isOpen reports whether the door accepts connections now.
func (d *door) isOpen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !time.Now().Before(d.shut)
}

func (d *door) shutUntil(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = t
}

// reset closes the connection so that the other side gets a reset at once.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if this fails, the other side sees an end, which also works
	}
	_ = conn.Close()
}
