package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

type direction int

const (
	up   direction = iota // from the client to the target
	down                  // and back
)

// pieces is how many pieces of data may be on their way in one direction;
// beyond that the sender waits, as it would for a full window.
const (
	pieces     = 256
	pieceBytes = 16 << 10
)

// piece is data on its way, or the end of the stream.
type piece struct {
	data []byte
	due  time.Time // when it arrives
	end  bool
}

// direction passes one direction on until its stream has ended, or the
// connection. Reading and writing are apart, so that a delay is one of time
// and not of how much comes through.
func (c *Conn) direction(d direction, from, to net.Conn) {
	on := make(chan piece, pieces)
	c.proxy.all.Go(func() { c.read(from, on) })
	for {
		select {
		case <-c.gone:
			return
		case p := <-on:
			if !c.arrives(d, p) {
				return
			}
			if p.end {
				c.hangUp(to)
				return
			}
			if !c.write(d, to, p.data) {
				return
			}
		}
	}
}

// read takes what comes until the stream ends.
func (c *Conn) read(from net.Conn, on chan<- piece) {
	for {
		buf := make([]byte, pieceBytes)
		n, err := from.Read(buf)
		if n > 0 && !c.send(on, piece{data: buf[:n], due: c.delayed()}) {
			return
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			c.end() // it was reset; the other side is, too
			return
		}
		c.send(on, piece{end: true, due: c.closing()})
		return
	}
}

func (c *Conn) send(on chan<- piece, p piece) bool {
	select {
	case on <- p:
		return true
	case <-c.gone:
		return false
	}
}

// delayed is when data of now arrives.
func (c *Conn) delayed() time.Time {
	f, _ := c.proxy.now()
	wait := f.Latency
	if f.Jitter > 0 {
		wait += rand.N(f.Jitter)
	}
	if wait > 0 {
		c.proxy.count(func(n *Counts) { n.Delayed++ })
	}
	return time.Now().Add(wait)
}

// closing is when an end of now arrives.
func (c *Conn) closing() time.Time {
	f, _ := c.proxy.now()
	if f.SlowClose > 0 {
		c.proxy.count(func(n *Counts) { n.Closed++ })
	}
	return time.Now().Add(f.Latency + f.SlowClose)
}

// arrives waits until a piece is due and its direction is not lost; false when
// the connection ended before.
func (c *Conn) arrives(d direction, p piece) bool {
	timer := time.NewTimer(time.Until(p.due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.gone:
		return false
	}
	for lost := false; ; {
		f, changed := c.proxy.now()
		if !f.loses(d) {
			return true
		}
		if !lost {
			lost = true
			c.proxy.count(func(n *Counts) { n.Lost++ })
		}
		select {
		case <-changed:
		case <-c.gone:
			return false
		}
	}
}

// write passes data on, up to where the connection is to be cut.
func (c *Conn) write(d direction, to net.Conn, data []byte) bool {
	f, _ := c.proxy.now()
	before := c.bytes.Add(int64(len(data))) - int64(len(data))
	cut := f.CutAfter > 0 && before+int64(len(data)) >= f.CutAfter
	if cut {
		data = data[:max(f.CutAfter-before, 0)]
	}
	n, err := to.Write(data)
	c.proxy.count(func(counts *Counts) {
		if d == up {
			counts.Up += int64(n)
		} else {
			counts.Down += int64(n)
		}
	})
	switch {
	case cut:
		c.Cut()
	case err != nil:
		c.end()
	}
	return !cut && err == nil
}

// hangUp passes the end of a stream on; the other direction may go on.
func (c *Conn) hangUp(to net.Conn) {
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}
