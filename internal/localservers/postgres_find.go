package localservers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldestPostgres is the first version with everything the schema uses.
const oldestPostgres = 15

// ErrNotInstalled says that a server's programs were not found.
var ErrNotInstalled = errors.New("not installed")

// An installation is one set of Postgres programs.
type installation struct {
	bin     string
	version int
}

// postgresFolders are where distributions put programs that are not on PATH.
var postgresFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// findPostgres picks the installation for a data folder: the one that made
// it, or for a new folder the first that is new enough: PATH's, then the
// distribution's newest.
func findPostgres(data string) (installation, error) {
	all := installations()
	made, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err == nil {
		return installationOf(all, strings.TrimSpace(string(made)), data)
	}
	for _, found := range all {
		if found.version >= oldestPostgres {
			return found, nil
		}
	}
	return installation{}, fmt.Errorf("%w: Postgres %d or newer (initdb and postgres were looked for on PATH and in %s): "+
		"install it (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17; "+
		"Fedora: dnf install postgresql-server), or name a running server in COUNTERSIGN_DATABASE_URL",
		ErrNotInstalled, oldestPostgres, strings.Join(postgresFolders, ", "))
}

func installationOf(all []installation, version, data string) (installation, error) {
	for _, found := range all {
		if strconv.Itoa(found.version) == version {
			return found, nil
		}
	}
	return installation{}, fmt.Errorf("%w: Postgres %s, which made the data in %s: install that version, "+
		"or choose another data folder to start anew", ErrNotInstalled, version, data)
}

// installations lists PATH's first, then the others, newest first.
func installations() []installation {
	var all []installation
	if initdb, err := exec.LookPath("initdb"); err == nil {
		// Where PATH has links, the other programs are beside what they name.
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil {
			all = append(all, atFolder(filepath.Dir(initdb))...)
		}
	}
	var rest []installation
	for _, pattern := range postgresFolders {
		folders, _ := filepath.Glob(pattern)
		for _, bin := range folders {
			rest = append(rest, atFolder(bin)...)
		}
	}
	slices.SortStableFunc(rest, func(a, b installation) int { return cmp.Compare(b.version, a.version) })
	return append(all, rest...)
}

var versionNumber = regexp.MustCompile(`\d+`)

// atFolder is the installation in a folder, or none.
func atFolder(bin string) []installation {
	if _, err := exec.LookPath(filepath.Join(bin, "initdb")); err != nil {
		return nil
	}
	output, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return nil
	}
	version, err := strconv.Atoi(versionNumber.FindString(string(output)))
	if err != nil {
		return nil
	}
	return []installation{{bin: bin, version: version}}
}
