package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/internal/process"
)

// aside moves a file or directory of the postoffice, or the postoffice itself (""), and
// returns where it is now.
func (o *testSpool) aside(path string) string {
	o.t.Helper()
	from := filepath.Join(o.dir, path)
	to := from + ".aside"
	check(o.t, os.Rename(from, to))
	return to
}

// back undoes aside, after it has removed what is in place.
func (o *testSpool) back(path string) {
	o.t.Helper()
	to := filepath.Join(o.dir, path)
	check(o.t, os.RemoveAll(to))
	check(o.t, os.Rename(to+".aside", to))
}

// until waits for a result, and returns it with the names that were found meanwhile.
func until[T Result](o *testSpool) (result T, found []Name) {
	for {
		select {
		case names := <-o.s.Found():
			found = append(found, names...)
		case results := <-o.s.Results():
			for _, r := range results {
				if result, ok := r.(T); ok {
					return result, found
				}
			}
		}
	}
}

// A transport/ that is replaced ends the work at the next sweep: mail in the new one is for
// the next scheduler, and nothing is written in the old one.
func TestReplacedTransportEndsTheSpool(t *testing.T) {
	for what, replace := range map[string]func(o *testSpool){
		"transport": func(o *testSpool) {
			o.aside("transport")
			o.mkdir("transport")
		},
		"the postoffice": func(o *testSpool) {
			o.aside("")
			t.Cleanup(func() { _ = os.RemoveAll(o.dir + ".aside") })
			o.mkdir("transport")
			o.mkdir("queue")
		},
		"a link to another transport": func(o *testSpool) {
			o.aside("transport")
			o.mkdir("elsewhere")
			check(t, os.Symlink("elsewhere", filepath.Join(o.dir, "transport")))
		},
	} {
		t.Run(what, func(t *testing.T) {
			o := newTestSpool(t)
			o.put("7", control("7", toBob))
			o.open(Options{Unwatched: true})
			until[Swept](o)
			replace(o)
			o.put("8", control("8", toBob))
			o.s.Sweep()
			lost, found := until[Disowned](o)
			if err := lost.Err; !errors.Is(err, process.ErrReplaced) || !strings.Contains(err.Error(), o.dir+"/transport is not the directory") {
				t.Errorf("%v", err)
			}
			if len(found) > 0 {
				t.Errorf("%v was found in another transport/", found)
			}
			if err := o.s.Check(); !errors.Is(err, process.ErrReplaced) {
				t.Errorf("job lines may be given out: %v", err)
			}
			o.s.Finish(Finish{Op: 1, Path: "7"})
			o.s.Close()
			o.read("queue/8")
		})
	}
}

// A probe notices it too: the place was first gone, and then another came.
func TestProbeNoticesAReplacedTransport(t *testing.T) {
	o := newTestSpool(t).open(Options{Unwatched: true})
	o.aside("transport")
	o.mkdir("transport")
	o.s.Probe()
	if err := answer[Disowned](o).Err; !errors.Is(err, process.ErrReplaced) {
		t.Errorf("%v", err)
	}
}

// Before writes and job lines the names are examined as well.
func TestCheckNoticesAReplacedTransport(t *testing.T) {
	o := newTestSpool(t).open(Options{Unwatched: true})
	o.aside("transport")
	o.mkdir("transport")
	o.s.standing.dueAt.Store(0)
	// An earlier question may have found it by now.
	if err := o.s.Check(); err != nil && !errors.Is(err, process.ErrReplaced) {
		t.Error(err)
	}
	if err := answer[Disowned](o).Err; !errors.Is(err, process.ErrReplaced) {
		t.Errorf("%v", err)
	}
}

// While a directory is not at its name, or while queue/ is another one, nothing is fed. The
// work goes on when it is back.
func TestMissingDirectoriesAreToldAndAwaited(t *testing.T) {
	for _, what := range []string{"transport", "queue", ""} {
		o := newTestSpool(t).open(Options{Unwatched: true})
		for range 2 {
			o.aside(what)
			if what == "queue" {
				o.mkdir(what)
			}
			o.s.Sweep()
			if err := answer[Down](o).Err; !errors.Is(err, ErrSpoolDown) {
				t.Errorf("%q: %v", what, err)
			}
			o.s.Probe()
			if answer[Probed](o).Err == nil {
				t.Errorf("%q: the spool works without it", what)
			}
			o.back(what)
			o.s.Probe()
			check(t, answer[Probed](o).Err)
		}
	}
}

// A link to transport/ may be there, and a name that cannot be examined is not another
// directory.
func TestLinksAndErrorsAreNoReplacement(t *testing.T) {
	o := newTestSpool(t)
	check(t, os.Rename(filepath.Join(o.dir, "transport"), filepath.Join(o.dir, "elsewhere")))
	check(t, os.Symlink("elsewhere", filepath.Join(o.dir, "transport")))
	o.open(Options{Unwatched: true})
	examined := func() {
		t.Helper()
		if down, lost := o.s.standing.examine(); down != nil || lost != nil {
			t.Error(down, lost)
		}
	}
	examined()
	check(t, os.Remove(filepath.Join(o.dir, "transport")))
	check(t, os.Symlink("transport", filepath.Join(o.dir, "transport"))) // ELOOP
	examined()
}

// The file of the owner may be a new one with a lower epoch, because the old one was removed.
func TestAnotherOwnerWithALowerEpochEndsTheSpool(t *testing.T) {
	parent := os.Getppid()
	for who, now := range map[string]OwnerRecord{
		"another process": {Epoch: 1, Held: true, Node: "mx1", Host: "h", Machine: machine(), PID: parent},
		"another machine": {Epoch: 1, Held: true, Node: "mx2", Host: "h", Machine: "m/1", PID: 1},
	} {
		o := newTestSpool(t)
		leftBy(t, o.dir, OwnerRecord{Epoch: 6, Node: "mx1", Host: "h", Machine: machine(), PID: 1})
		o.open(Options{Unwatched: true, Owner: claimed(t, Claim{Postoffice: o.dir, Node: "mx1"})})
		owner := filepath.Join(o.dir, ownerName)
		text := o.read(ownerName)
		examined := func(what string) {
			if down, lost := o.s.standing.examine(); down != nil || lost != nil {
				t.Errorf("%s: %v, %v", what, down, lost)
			}
		}
		check(t, os.Remove(owner))
		examined("without the file")
		check(t, os.WriteFile(owner, []byte(text), 0o600))
		examined("with a copy of it")
		check(t, os.Remove(owner))
		leftBy(t, o.dir, now)
		o.s.Sweep()
		if err := answer[Disowned](o).Err; !errors.Is(err, ErrDisowned) {
			t.Errorf("%s: %v", who, err)
		}
	}
}
