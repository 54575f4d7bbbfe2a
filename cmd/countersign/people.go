package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/client"
)

// people are the flags that the commands for people share.
type people struct {
	URL  string `help:"Address of any api node." env:"COUNTERSIGN_URL" placeholder:"URL" group:"Server:"`
	Key  string `help:"API key." env:"COUNTERSIGN_API_KEY" placeholder:"KEY" group:"Server:"`
	As   string `help:"Person to act for, if the key may: user:bob." env:"COUNTERSIGN_ACTOR" placeholder:"WHO" group:"Server:"`
	Data string `help:"Data folder of a running \"countersign dev\"." env:"COUNTERSIGN_DATA" placeholder:"DIR" type:"path" group:"Server:"`
	JSON *bool  `help:"Print JSON, or with --no-json tables (default: tables on a terminal)." name:"json" negatable:""`
}

// connect finds the server: by flags or environment, else a running
// development system by its data folder.
func (f people) connect(p process) (*client.Client, error) {
	url, key := f.URL, f.Key
	if url == "" || key == "" {
		dev, err := f.development(p)
		switch {
		case err != nil:
			return nil, err
		case url == "":
			url = dev.URL
		case !sameServer(url, dev.URL):
			return nil, usagef("no key for %s: set COUNTERSIGN_API_KEY, or --key", url)
		}
		if key == "" {
			key = dev.APIKey
		}
	}
	options := []client.Option{client.WithChannel("cli")}
	if f.As != "" {
		options = append(options, client.WithActor(f.As))
	}
	return client.New(url, key, options...), nil
}

func sameServer(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

func (f people) development(p process) (devstate.State, error) {
	dir := f.Data
	if dir == "" {
		var err error
		if dir, err = devstate.DefaultDir(p.getenv); err != nil {
			return devstate.State{}, usageError{err}
		}
	}
	dev, err := devstate.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dev, usagef("no server named, and none runs with the data folder %s: start `countersign dev`, "+
			"or set COUNTERSIGN_URL and COUNTERSIGN_API_KEY (--url, --key), or name its folder with --data", dir)
	}
	return dev, err
}

// output is how a command shows its answer.
type output struct {
	terminal.Screen
	json bool
}

func (f people) output(p process) output {
	screen := terminal.Open(p.out, p.getenv)
	if f.JSON != nil {
		return output{screen, *f.JSON}
	}
	return output{screen, !screen.Interactive}
}

// document prints v as one JSON document, indented.
func (o output) document(v any) error { return o.encode(v, "  ") }

// line prints v as JSON on one line, for streams.
func (o output) line(v any) error { return o.encode(v, "") }

func (o output) encode(v any, indent string) error {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write the answer as JSON: %w", err)
	}
	_, err := o.Out.Write(visible.SafeJSON(encoded.Bytes()))
	return err
}

// say prints a line for people, with what strangers wrote made visible.
func (o output) say(format string, values ...any) {
	fmt.Fprintln(o.Out, visible.Line(fmt.Sprintf(format, values...)))
}
