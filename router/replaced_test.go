package router

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"

	"zsched/internal/process"
	"zsched/queue"
)

// A router whose postoffice was replaced takes nothing from the new one, and ends: in the
// middle of a batch, where what is staged stays for the next router, and before one.
func TestRouterEndsWhenThePostofficeIsReplaced(t *testing.T) {
	for _, when := range []string{"sync staged", ""} {
		o := newOffice(t, 0)
		o.write("router/1", "from <s@a.example>\nto <x@b.example>\nenv-end\n\nbody\n")
		r := o.router()
		var err error
		if r.queue.claim, err = process.NewClaim(o.dir, "router", queue.RouterStaging); err != nil {
			t.Fatal(err)
		}
		defer r.queue.claim.Close()
		replace := func() {
			dir := filepath.Join(o.dir, "transport")
			if err := errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		r.queue.Step = func(what string) {
			if what == when {
				replace()
			}
		}
		if when == "" {
			replace()
		}
		r.loop(make(chan os.Signal), new(fsnotify.Watcher))
		if !errors.Is(r.replaced, process.ErrReplaced) {
			t.Errorf("%q: %v", when, r.replaced)
		}
		if left := o.files("router"); len(left) != 1 || len(o.files("queue")) != 0 {
			t.Errorf("%q: router/ has %v, queue/ has %v", when, left, o.files("queue"))
		}
	}
}
