package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// File is an open ledger. It remembers what its earlier process wrote, so that
// a key that was honoured is honoured after a crash, too.
type File struct {
	mu       sync.Mutex
	file     *os.File
	effects  int
	byKey    map[string]Effect
	requests map[string]int // by call
}

// Open opens a ledger, or makes it. What a crash left of a last line is cut
// off: nobody was answered for it.
func Open(path string) (*File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	f := &File{file: file, byKey: map[string]Effect{}, requests: map[string]int{}}
	if err := f.load(path); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func (f *File) load(path string) error {
	content, err := io.ReadAll(f.file)
	if err != nil {
		return err
	}
	effects, requests, err := parse(path, content)
	if err != nil {
		return err
	}
	for _, e := range effects {
		f.effects++
		f.remember(e)
	}
	for _, r := range requests {
		f.requests[r.Call]++
	}
	return f.file.Truncate(int64(bytes.LastIndexByte(content, '\n') + 1))
}

// remember keeps the first effect of a key.
func (f *File) remember(e Effect) {
	if _, known := f.byKey[e.Key]; !known && e.Key != "" {
		f.byKey[e.Key] = e
	}
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// arrived counts a request of a call, and says the how manieth it is, from 1.
func (f *File) arrived(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[call]++
	return f.requests[call]
}

// note writes down a request. It is not synced: it survives this process, and
// no more is asked of it.
func (f *File) note(r Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.append(line{Request: &r})
}

// do makes the effect, or gives the one that the key had already if it is to
// be honoured.
func (f *File) do(r Request, honour bool) (e Effect, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, known := f.byKey[r.Key]; honour && known {
		return e, nil
	}
	e = Effect{Request: r, N: f.effects + 1, Done: time.Now()}
	if err := f.append(line{Effect: &e}); err != nil {
		return e, err
	}
	f.effects++
	f.remember(e)
	return e, f.file.Sync()
}

func (f *File) append(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = f.file.Write(append(b, '\n'))
	return err
}
