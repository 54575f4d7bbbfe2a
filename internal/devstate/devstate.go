package devstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of the file within the data folder.
const FileName = "dev.json"

// State is what a development system tells about itself; --ready-file has
// the same content.
type State struct {
	URL           string `json:"url"`
	APIKey        string `json:"apiKey"`
	WebhookSecret string `json:"webhookSecret"`
	NATSURL       string `json:"natsUrl"`
	RedisURL      string `json:"redisUrl"`
	DatabaseURL   string `json:"databaseUrl"`
}

// DefaultDir is the data folder when nobody names one:
// $XDG_STATE_HOME/countersign, or ~/.local/state/countersign. Root's is
// /var/lib/countersign: Postgres runs as another user then, who cannot enter
// root's home.
func DefaultDir(getenv func(string) string) (string, error) { return defaultDir(getenv, os.Geteuid()) }

func defaultDir(getenv func(string) string, uid int) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "countersign"), nil
	}
	if uid == 0 {
		return "/var/lib/countersign", nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("HOME is not set, so there is no default data folder; name one with --data")
	}
	return filepath.Join(home, ".local", "state", "countersign"), nil
}

// Write stores s in the data folder dir, which exists.
func Write(dir string, s State) error { return WriteFile(filepath.Join(dir, FileName), s) }

// WriteFile stores s in a file of any name, as --ready-file does.
func WriteFile(file string, s State) error {
	encoded, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	// CreateTemp gives the mode 0600, and the rename replaces in one step.
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(append(encoded, '\n'))
	if err := errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(temp.Name(), file)
}

// Read loads what the system with the data folder dir told. Without a file
// the error is [fs.ErrNotExist]: no system runs there.
func Read(dir string) (State, error) {
	file := filepath.Join(dir, FileName)
	encoded, err := os.ReadFile(file)
	if err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(encoded, &s); err != nil {
		return State{}, fmt.Errorf("read %s: %w; start `countersign dev` again, which rewrites it", file, err)
	}
	return s, nil
}

// Remove deletes the file from the data folder dir; none is fine.
func Remove(dir string) error {
	err := os.Remove(filepath.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
