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

// A router whose directory was replaced takes nothing from the new one, and ends.
func TestRouterEndsWhenADirectoryIsReplaced(t *testing.T) {
	for _, name := range queueDirs {
		o := newOffice(t, 0)
		o.write("router/1", "from <s@a.example>\nto <x@b.example>\nenv-end\n\nbody\n")
		r := o.router()
		claim, err := process.NewClaim(o.dir, "router", queue.RouterStaging, queueDirs[:]...)
		if err != nil {
			t.Fatal(err)
		}
		defer claim.Close()
		r.queue.claim = claim
		replace := func() {
			dir := filepath.Join(o.dir, name)
			if err := errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		// In the middle of a batch: what is staged stays for the next router.
		r.queue.Step = func(what string) {
			if what == "sync staged" {
				replace()
			}
		}
		r.loop(make(chan os.Signal), new(fsnotify.Watcher))
		if !errors.Is(r.replaced, process.ErrReplaced) {
			t.Errorf("%s: %v", name, r.replaced)
		}
		left := o.files("router")
		if name == "router" {
			left = append(o.files("router.old"), left...)
		}
		if len(left) != 1 || len(o.files("queue")) != 0 {
			t.Errorf("%s: router/ has %v, queue/ has %v", name, left, o.files("queue"))
		}
		// Before a batch.
		if name == "router" {
			o.write("router/2", "from <s@a.example>\nto <x@b.example>\nenv-end\n\nbody\n")
			r.replaced = nil
			r.drain()
			if !errors.Is(r.replaced, process.ErrReplaced) || len(o.files("router")) != 1 {
				t.Errorf("%v, router/ has %v", r.replaced, o.files("router"))
			}
		}
	}
}
