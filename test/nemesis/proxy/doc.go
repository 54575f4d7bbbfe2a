// Package proxy is a TCP connection that can be broken in every way in which
// networks break: a proxy in this process, between a service and what it
// speaks to.
//
// [Listen] puts it in front of an address; [Proxy.Set] switches [Faults] on
// and off while connections live, [Proxy.Cut] resets them. What a fault did
// is counted, so that a test knows that its fault was there.
//
// Nothing that was taken is dropped while its connection lives, as TCP itself
// never leaves a hole in a stream: bytes that a one-way loss holds back are
// passed on when it ends, as a retransmission would bring them, or go with
// the connection. And the kernel makes connections, so one can always be made
// unless it is refused: a machine that is not there is one that swallows.
//
// [Proxy.Close] returns when every goroutine and every connection is gone.
// It imports nothing of ours, and is used by tests alone.
package proxy
