package table

import (
	users "os/user"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Each lookup may search long files.
func TestUsersAreLookedUpSeldom(t *testing.T) {
	table := newTable(t)
	asked := ""
	table.HasUser = func(name string) bool {
		asked += " " + name
		return name == "ann"
	}
	for address, want := range map[string]string{
		"ann": " ann", "Ann": " Ann ann", "ann+x": " ann", "ann+X": " ann", "nobody": " nobody", "no+X": " no no+X no+x", "+x": " +x",
	} {
		if table.Fault(address); asked != want {
			t.Errorf("%s: asked for%s, want%s", address, asked, want)
		}
		asked = ""
	}
}

func TestFewUsersAreLookedUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func(was chan struct{}) { lookups, lookUp = was, users.Lookup }(lookups)
		lookups = make(chan struct{}, cap(lookups))
		var begun atomic.Int32
		ended := make(chan struct{})
		lookUp = func(string) (*users.User, error) {
			begun.Add(1)
			<-ended
			return nil, nil
		}
		var sessions sync.WaitGroup
		for range 10 {
			sessions.Go(func() { MachineHasUser("ann") })
		}
		synctest.Wait()
		if n := begun.Load(); n != 4 {
			t.Errorf("%d lookups at once", n)
		}
		close(ended)
		sessions.Wait()
		if n := begun.Load(); n != 10 {
			t.Errorf("%d lookups", n)
		}
	})
}
