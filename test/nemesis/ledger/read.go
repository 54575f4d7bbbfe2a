package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Read gives the effects of a ledger in the order in which they happened,
// while a server writes it or after. A last line that was not written whole is
// no effect. A ledger that does not exist has none.
func Read(path string) ([]Effect, error) {
	effects, _, err := read(path)
	return effects, err
}

// Requests gives everything that came in, in order: also what had no effect.
func Requests(path string) ([]Request, error) {
	_, requests, err := read(path)
	return requests, err
}

func read(path string) ([]Effect, []Request, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	return parse(path, content)
}

func parse(path string, content []byte) (effects []Effect, requests []Request, err error) {
	for n := 1; ; n++ {
		whole, rest, ended := bytes.Cut(content, []byte("\n"))
		if !ended {
			return effects, requests, nil
		}
		var l line
		if err := json.Unmarshal(whole, &l); err != nil {
			return nil, nil, fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		if l.Effect != nil {
			effects = append(effects, *l.Effect)
		}
		if l.Request != nil {
			requests = append(requests, *l.Request)
		}
		content = rest
	}
}
