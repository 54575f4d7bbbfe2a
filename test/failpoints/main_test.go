package failpoints

import (
	"testing"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

func TestMain(m *testing.M) { testservers.Main(m) }

// tag is what the services are built with.
const tag = "failpoints"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
