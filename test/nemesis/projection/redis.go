package projection

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// entry is what Redis holds of a topic.
type entry struct {
	id      string // tenant:topic
	version int64
	body    bool          // false: a tombstone, which nobody reads
	left    time.Duration // how long it will live
}

// reader is one connection.
type reader struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(address string) (*reader, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil, err
	}
	return &reader{conn, bufio.NewReader(conn)}, nil
}

// read gives the sound entries of all topics, by key, in one moment.
func (r *reader) read() (map[string]entry, error) {
	_ = r.conn.SetDeadline(time.Now().Add(2 * time.Second))
	// One script is one moment, and takes no other client's time but its own.
	const script = `local out = {}
for _, key in ipairs(redis.call('KEYS', 'ts:*')) do
  local e = redis.pcall('HMGET', key, 'v', 'id', 'body')
  if not e.err and e[1] and e[2] and e[3] then
    out[#out+1] = key .. ' ' .. e[1] .. ' ' .. e[2] .. ' ' .. #e[3] .. ' ' .. redis.call('PTTL', key)
  end
end
return out`
	if _, err := fmt.Fprintf(r.conn, "*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n", len(script), script); err != nil {
		return nil, err
	}
	n, err := r.header('*')
	if err != nil {
		return nil, err
	}
	out := map[string]entry{}
	for range n {
		line, err := r.bulk()
		if err != nil {
			return nil, err
		}
		if key, e, ok := parse(line); ok {
			out[key] = e
		}
	}
	return out, nil
}

// parse leaves out what no service would have written: poison.
func parse(line string) (key string, e entry, ok bool) {
	f := strings.Split(line, " ")
	if len(f) != 5 || !strings.HasSuffix(f[0], ":"+f[2]) { // an epoch may stand between
		return "", e, false
	}
	version, err1 := strconv.ParseInt(f[1], 10, 64)
	size, err2 := strconv.Atoi(f[3])
	ttl, err3 := strconv.ParseInt(f[4], 10, 64)
	sound := err1 == nil && err2 == nil && err3 == nil && version > 0 && version < 1<<53 && ttl >= 0
	return f[0], entry{f[2], version, size > 0, time.Duration(ttl) * time.Millisecond}, sound
}

func (r *reader) header(kind byte) (int, error) {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("Redis answered %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func (r *reader) bulk() (string, error) {
	n, err := r.header('$')
	if err != nil {
		return "", err
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(r.in, text); err != nil {
		return "", err
	}
	return string(text[:n]), nil
}
