package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxFileBytes = 1 << 20
	maxListed    = 1000
)

type files struct{ root *os.Root }

type pathInput struct {
	Path string `json:"path" jsonschema:"path of the file, relative to the workspace"`
}

type listInput struct {
	Path string `json:"path,omitempty" jsonschema:"folder to list, relative to the workspace; the whole workspace by default"`
}

type writeInput struct {
	Path    string `json:"path" jsonschema:"path of the file, relative to the workspace"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func (f *files) read(in pathInput) (string, error) {
	file, err := f.root.Open(in.Path)
	if err != nil {
		return "", explain(in.Path, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return "", explain(in.Path, err)
	case len(data) > maxFileBytes:
		return "", fmt.Errorf("%s is larger than %d bytes", in.Path, maxFileBytes)
	case !utf8.Valid(data):
		return "", fmt.Errorf("%s is not a text file", in.Path)
	}
	return string(data), nil
}

func (f *files) list(in listInput) (string, error) {
	folder := path.Clean("./" + in.Path)
	var lines []string
	err := fs.WalkDir(f.root.FS(), folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case len(lines) == maxListed:
			lines = append(lines, "… and more")
			return fs.SkipAll
		case !entry.IsDir():
			lines = append(lines, name)
		}
		return nil
	})
	if err != nil {
		return "", explain(in.Path, err)
	}
	if len(lines) == 0 {
		return "no files", nil
	}
	return strings.Join(lines, "\n"), nil
}

func (f *files) write(in writeInput) (string, error) {
	if folder := path.Dir(in.Path); folder != "." {
		if err := f.root.MkdirAll(folder, 0o755); err != nil {
			return "", explain(in.Path, err)
		}
	}
	if err := f.root.WriteFile(in.Path, []byte(in.Content), 0o644); err != nil {
		return "", explain(in.Path, err)
	}
	return fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.Path), nil
}

func (f *files) remove(in pathInput) (string, error) {
	info, err := f.root.Lstat(in.Path)
	switch {
	case err != nil:
		return "", explain(in.Path, err)
	case info.IsDir():
		return "", fmt.Errorf("%s is a folder; only files are deleted", in.Path)
	}
	if err := f.root.Remove(in.Path); err != nil {
		return "", explain(in.Path, err)
	}
	return "deleted " + in.Path, nil
}

// explain names the path as it was given and not the folder of the machine.
func explain(name string, err error) error {
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}
