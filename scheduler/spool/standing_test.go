package spool

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/process"
	"zsched/scheduler"
	"zsched/scheduler/owner"
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
			o.s.Finish(scheduler.Finish{Op: 1, Path: "7"})
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

// The names are examined every second.
func TestCheckNoticesAReplacedDirectory(t *testing.T) {
	for _, dir := range []string{"transport", "hold"} {
		o := newTestSpool(t).open(Options{Unwatched: true})
		o.aside(dir)
		o.mkdir(dir)
		if err := answer[Disowned](o).Err; !errors.Is(err, process.ErrReplaced) || !strings.Contains(err.Error(), o.dir+"/"+dir+" is not the directory") {
			t.Errorf("%v", err)
		}
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
			if err := answer[Down](o).Err; !IsDown(err) {
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
	for who, now := range map[string]owner.Record{
		"another process": {Epoch: 1, Held: true, Node: "mx1", Host: "h", PID: os.Getppid()},
		"another machine": {Epoch: 1, Held: true, Node: "mx2", Host: "h", Machine: "m/1", PID: 1},
	} {
		o := newTestSpool(t)
		claimed(t, owner.Claim{Postoffice: o.dir, Node: "mx1"}).Release()
		ours := claimed(t, owner.Claim{Postoffice: o.dir, Node: "mx1"})
		now.Machine = cmp.Or(now.Machine, ours.Machine)
		o.open(Options{Unwatched: true, Owner: ours})
		path := filepath.Join(o.dir, ".owner")
		text := o.read(".owner")
		examined := func(what string) {
			if down, lost := o.s.standing.examine(); down != nil || lost != nil {
				t.Errorf("%s: %v, %v", what, down, lost)
			}
		}
		check(t, os.Remove(path))
		examined("without the file")
		check(t, os.WriteFile(path, []byte(text), 0o600))
		examined("with a copy of it")
		check(t, os.Remove(path))
		leftBy(t, o.dir, now)
		o.s.Sweep()
		if err := answer[Disowned](o).Err; !errors.Is(err, owner.ErrDisowned) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

// The locks of a dead node name no processes of this machine but by chance.
func TestLocksOfADeadNodeNameNoProcessOfThisOne(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", locked(1)+"\n"+locked(os.Getppid())))
	o.age("transport/7", 0)
	if m := o.open(Options{Owner: claimed(t, owner.Claim{Postoffice: o.dir, Node: "mx1"})}).loaded("7"); len(m.Recipients) != 2 {
		t.Errorf("%+v", m)
	}
}

func TestDisownedSpoolWritesNothing(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{Owner: claimed(t, owner.Claim{Postoffice: o.dir, Node: "mx1"})})
	o.loaded("7")
	leftBy(t, o.dir, owner.Record{Epoch: 2, Held: true, Node: "mx2", Host: "h", Machine: "m/1", PID: 1})
	before := o.read("transport/7")
	f, err := ctlfile.Parse([]byte(before))
	check(t, err)
	for o.s.Check() == nil { // its last answer is repeated for a short time
		runtime.Gosched()
	}
	o.s.Mark(1, "7", []ctlfile.Mark{{Offset: f.Recipients[0].Offset, Tag: ctlfile.Delivered}})
	for {
		r := o.next()
		if _, marked := r.(Answered); marked {
			t.Fatal("the outcome was written")
		}
		if lost, ok := r.(Disowned); ok {
			if !errors.Is(lost.Err, owner.ErrDisowned) {
				t.Errorf("the error is %v", lost.Err)
			}
			break
		}
	}
	o.s.Hold(2, "7")
	o.s.Finish(scheduler.Finish{Op: 3, Path: "7"})
	o.s.Close()
	if o.read("transport/7") != before || unix.Access(o.dir+"/queue/7", unix.F_OK) != nil {
		t.Error("the files have changed")
	}
}

// claimed takes a postoffice, as the node's scheduler does at its start.
func claimed(t *testing.T, c owner.Claim) *owner.Owner {
	t.Helper()
	o, err := c.Acquire(t.Context())
	check(t, err)
	t.Cleanup(o.Release)
	return o
}

// leftBy makes the file of another owner.
func leftBy(t *testing.T, office string, r owner.Record) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(office, ".owner"), []byte(r.String()+"\n"), 0o600))
}
