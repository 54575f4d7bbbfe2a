package freeport

import (
	"net"
	"testing"
)

// A port that was given is not given again, in use or not, here or elsewhere.
func TestAPortIsGivenOnce(t *testing.T) {
	t.Parallel()
	given := map[int]bool{}
	for range 500 {
		port, err := Find()
		if err != nil {
			t.Fatal(err)
		}
		if given[port] {
			t.Fatalf("port %d was given twice", port)
		}
		given[port] = true
	}
	text, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", text)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; given[port] || reserve(port) || free(port) {
		t.Errorf("port %d can be had by others", port)
	}
}
