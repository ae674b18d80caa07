package smtp

import (
	"context"
	"net/netip"
	"slices"
	"testing"
)

// Every machine's hosts file has this name.
func TestResolverReadsTheHostsFile(t *testing.T) {
	got, err := NewResolver("").Addresses(context.Background(), "localhost")
	if err != nil || !slices.ContainsFunc(got, netip.Addr.IsLoopback) {
		t.Errorf("addresses of localhost are %v, %v", got, err)
	}
}

func TestResolverWithAServerAsksNothingElse(t *testing.T) {
	r := NewResolver("127.0.0.1:1")
	if got, err := r.Addresses(context.Background(), "localhost"); err == nil || err == ErrNotFound {
		t.Errorf("addresses of localhost are %v, %v, though the server does not answer", got, err)
	}
}
