package faults

import (
	"testing"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

func TestMain(m *testing.M) { testservers.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
