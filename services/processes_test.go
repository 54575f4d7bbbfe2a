package services

import (
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/internal/localservers/testservers"
)

func TestMain(m *testing.M) { testservers.Main(m) }

// deployment is a whole Countersign of real processes, and what the tests of
// this package do with one.
type deployment struct{ *testcluster.Deployment }

// deploy runs two of each service.
func deploy(t *testing.T) *deployment {
	t.Helper()
	return &deployment{testcluster.Deploy(t)}
}

// servers is a deployment without a service yet.
func servers(t *testing.T) *deployment {
	t.Helper()
	return &deployment{testcluster.Servers(t)}
}

// in is the same deployment for a subtest.
func (d *deployment) in(t *testing.T) *deployment { return &deployment{d.In(t)} }

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	must(t, err)
	return address
}
