package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// Log is a history that grows. It is safe for concurrent use.
type Log struct {
	begin time.Time

	mu   sync.Mutex
	next int64
	sums map[Result]int
	open map[int64]Op
	done []Op
	file *os.File
	out  *bufio.Writer
}

// Create begins a history, and its file.
func Create(path string) (*Log, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Log{begin: time.Now(), open: map[int64]Op{}, sums: map[Result]int{}, file: file, out: bufio.NewWriter(file)}, nil
}

// Now is the time since the run began.
func (l *Log) Now() time.Duration { return time.Since(l.begin) }

// Invoke notes that a request is about to be sent.
func (l *Log) Invoke(op Op) *Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	op.Seq, op.Invoked, op.Result = l.next, l.Now(), Unknown
	l.open[op.Seq] = op
	return &op
}

// Return notes what came of it; the caller has filled in what it was told.
func (l *Log) Return(op *Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op.Returned = l.Now()
	delete(l.open, op.Seq)
	l.done = append(l.done, *op)
	l.sums[op.Result]++
	l.write(*op)
}

func (l *Log) write(op Op) {
	line, err := json.Marshal(op)
	if err != nil {
		panic(err) // numbers and texts of ours
	}
	_, _ = l.out.Write(append(line, '\n')) // what fails is told by Close
}

// Ops gives what is known so far, by the time at which it was sent; what has
// not returned is unknown.
func (l *Log) Ops() []Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.done)
	for _, op := range l.open {
		all = append(all, op)
	}
	slices.SortFunc(all, func(a, b Op) int { return int(a.Seq - b.Seq) })
	return all
}

// Counts says how many requests came to what so far; what has not returned is
// unknown.
func (l *Log) Counts() map[Result]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := maps.Clone(l.sums)
	out[Unknown] += len(l.open)
	return out
}

// Close ends the file. What has not returned is in it as unknown.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range l.open {
		l.write(op)
	}
	return errors.Join(l.out.Flush(), l.file.Close())
}
