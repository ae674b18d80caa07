package router

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// Mail is found at once again when router/ or one of its hash directories has come back, or another
// one has taken its place.
func TestDirectoriesAreWatchedAgain(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		for _, moved := range []string{"router", "router/A"} {
			o := newOffice(t, 0)
			r := o.router()
			dir, away := filepath.Join(o.dir, moved), filepath.Join(o.dir, "away")
			if err := os.Mkdir(filepath.Join(o.dir, "router/A"), 0o755); err != nil {
				t.Fatal(err)
			}
			w, err := r.watch()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.Close() }()
			if err := os.Rename(dir, away); err != nil {
				t.Fatal(err)
			}
			for slices.Contains(w.WatchList(), dir) {
				runtime.Gosched()
			}
			if replaced {
				err = os.MkdirAll(filepath.Join(o.dir, "router/A"), 0o755)
			} else {
				err = os.Rename(away, dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.startSweep()
			r.endSweep()
			for _, name := range []string{"router/1", "router/A/2"} {
				o.write(name, "")
				for path := filepath.Join(o.dir, name); ; {
					select {
					case e := <-w.Events:
						if e.Name != path {
							continue
						}
					case <-time.After(10 * time.Second):
						t.Errorf("%s moved, replaced: %v: %s is not noticed", moved, replaced, name)
					}
					break
				}
			}
		}
	}
}
