package services

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/countersign/countersign/"

// ours says which of our packages a folder may import, tests left out. A
// folder that is not listed has a parent that is.
var ours = map[string][]string{
	"pkg/model":      {"internal/bugs"},
	"pkg/policy":     {"pkg/model"},
	"pkg/store":      {"pkg/model", "pkg/failpoint", "internal/bugs"},
	"pkg/status":     {"pkg/model", "internal/bugs"},
	"pkg/bus":        {"pkg/model", "pkg/failpoint"},
	"pkg/strictjson": {},
	"pkg/toolschema": {},
	"pkg/uistream":   {"pkg/strictjson"},
	"pkg/uimessage":  {"pkg/model", "pkg/store"},
	"pkg/approval":   {"pkg/model", "pkg/policy", "pkg/store", "pkg/step", "pkg/strictjson", "pkg/toolschema", "pkg/uimessage", "pkg/egress"},
	"pkg/intake":     {"pkg/approval", "pkg/bus", "pkg/strictjson", "pkg/uistream"},
	"pkg/egress":     {},
	"pkg/step":       {},
	"pkg/client":     {},
	"pkg/daemon":     {"internal/owner", "pkg/failpoint"},
	"pkg/failpoint":  {},

	"internal/bugs":         {},
	"internal/visible":      {"pkg/model"},
	"internal/devstate":     {},
	"internal/owner":        {},
	"internal/freeport":     {},
	"internal/localservers": {"internal/owner", "internal/freeport", "internal/localservers"},
	"internal/testnode":     {},
	"internal/cluster":      {"pkg/client", "pkg/model", "pkg/store", "internal/freeport", "internal/localservers", "internal/cluster"},

	"services/api": {"pkg/model", "pkg/policy", "pkg/store", "pkg/status", "pkg/bus", "pkg/daemon", "pkg/step", "pkg/strictjson",
		"pkg/failpoint", "pkg/approval", "pkg/intake", "pkg/toolschema", "pkg/uimessage", "pkg/uistream", "pkg/egress", "internal/visible", "services/api"},
	"services/continuer": {"pkg/failpoint", "pkg/model", "pkg/store", "pkg/bus", "pkg/daemon", "pkg/step", "pkg/egress", "services/continuer"},
	"services/worker": {"pkg/failpoint", "pkg/model", "pkg/policy", "pkg/store", "pkg/bus", "pkg/daemon", "pkg/step", "pkg/egress", "pkg/approval", "pkg/intake",
		"pkg/strictjson", "pkg/uimessage", "pkg/uistream", "internal/bugs", "services/worker"},

	"examples": {"pkg/client", "examples"},

	// What judges the product shares no code with it.
	"test/nemesis/ledger":     {},
	"test/nemesis/proxy":      {},
	"test/nemesis/toolserver": {"test/nemesis/ledger"},
	"test/nemesis": {"pkg/client", "pkg/model", "pkg/store", "pkg/bus", "pkg/approval", "internal/cluster", "internal/localservers",
		"examples/modelserver", "test/nemesis"},

	// The operator's command wires everything into one process.
	"cmd": {"pkg", "internal", "services", "examples", "cmd"},
}

// homes says where a library may be imported. One library, one home.
var homes = map[string][]string{
	"github.com/jackc/pgx/":                            {"pkg/store", "internal/localservers", "internal/cluster/testcluster", "test/nemesis/rows"}, // there, to ask and to look
	"github.com/pressly/goose/":                        {"pkg/store"},
	"github.com/nats-io/nats.go":                       {"pkg/bus"},
	"github.com/nats-io/nats-server/":                  {"internal/localservers"},
	"github.com/redis/go-redis/":                       {"pkg/status"},
	"go.opentelemetry.io/otel/sdk":                     {"pkg/daemon"},
	"go.opentelemetry.io/otel/exporters":               {"pkg/daemon"},
	"github.com/prometheus/":                           {"pkg/daemon"},
	"github.com/santhosh-tekuri/jsonschema/":           {"pkg/toolschema"},
	"github.com/go-json-experiment/":                   {"pkg/strictjson"},
	"github.com/gowebpki/jcs":                          {"pkg/uistream"},
	"github.com/modelcontextprotocol/go-sdk/":          {"services/worker/mcp", "examples/workspace"},
	"github.com/openai/":                               {"services/worker/model"},
	"github.com/standard-webhooks/":                    {"services/continuer/sink", "examples/chat"},
	"code.dny.dev/ssrf":                                {"pkg/egress"},
	"github.com/danielgtaylor/huma/":                   {"services/api/httpapi"},
	"github.com/golang-jwt/":                           {"services/api/token"},
	"github.com/alecthomas/kong":                       {"pkg/daemon", "cmd/countersign"},
	"github.com/countersign/countersign/services/api/": {"services/api", "cmd/countersign"},
}

// Imports go one way, and each library has one home. The files are read, not
// listed by the go command: its answers can come from a cache that does not
// know of an import that was just added.
func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	root := os.DirFS("..")
	files := 0
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "tools" || d.Name() == "bin"):
			return fs.SkipDir
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		files++
		for _, imported := range importsOf(t, file) {
			check(t, path.Dir(file), imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("only %d files were read", files)
	}
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, imported)
	}
	return out
}

func check(t *testing.T, folder, imported string) {
	for library, at := range homes {
		if strings.HasPrefix(imported, library) && !below(at, folder) {
			t.Errorf("%s imports %s, whose home is %s", folder, imported, strings.Join(at, ", "))
		}
	}
	if target, is := strings.CutPrefix(imported, module); is && !below(allowed(folder), target) {
		t.Errorf("%s must not import %s", folder, target)
	}
}

// allowed gives the list of the nearest folder that has one.
func allowed(folder string) []string {
	for ; folder != "."; folder = path.Dir(folder) {
		if list, ok := ours[folder]; ok {
			return list
		}
	}
	return nil
}

func below(folders []string, folder string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return folder == f || strings.HasPrefix(folder, f+"/") })
}
