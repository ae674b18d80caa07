package spool

// Files that are swapped or changed while they are read.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// TestFilesThatAreSwappedWhileTheyAreUsed: somebody who can write in the directories
// replaces files and directories by links, FIFOs and directories all the time, while
// messages are loaded, marked, held, put into quarantine and removed. Nothing outside is
// touched, also if the scheduler is root.
func TestFilesThatAreSwappedWhileTheyAreUsed(t *testing.T) {
	outside := t.TempDir()
	for _, file := range []string{"victim", "7", "A/7", "queue/7"} {
		path := filepath.Join(outside, file)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(control("7", toBob)), 0o600))
	}
	before := snapshot(t, outside)
	o := newTestSpool(t)
	o.mkdir("hold/transport")
	o.mkdir("hold/queue")
	o.open(Options{HashLevels: 1})

	done := make(chan struct{})
	var attacker sync.WaitGroup
	attacker.Go(func() {
		chance := rand.New(rand.NewPCG(1, 1))
		places := []string{"transport/7", "queue/7", "transport/H/7", "queue/H/7", "transport/H", "queue/H",
			"hold/transport/H", "hold/queue/H", "corrupt/transport/H", "hold/orders"}
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			path := filepath.Join(o.dir, places[chance.IntN(len(places))])
			if parent, err := os.Lstat(filepath.Dir(path)); err != nil || !parent.IsDir() {
				continue // the attacker does not leave the postoffice either
			}
			old := filepath.Join(o.dir, fmt.Sprint(".old", i%20))
			_ = os.RemoveAll(old)
			_ = os.Rename(path, old)
			switch chance.IntN(8) {
			case 0:
				_ = os.Symlink(filepath.Join(outside, "victim"), path)
			case 1:
				_ = os.Symlink(outside, path)
			case 2:
				_ = unix.Mkfifo(path, 0o666)
			case 3:
				_ = os.Mkdir(path, 0o777)
			default:
				fresh := filepath.Join(o.dir, ".new")
				_ = os.WriteFile(fresh, []byte(control("7", toBob)), 0o666)
				_ = os.Rename(fresh, path)
			}
		}
	})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-o.s.Results():
			case <-o.s.Found():
			}
		}
	}()
	n := Name{"H/7", 7}
	at := offset(t, control("7", toBob), "bob@b")
	for op := range uint64(1000) {
		switch op % 7 {
		case 0:
			o.s.Load([]Name{{"7", 7}})
		case 1, 2:
			o.s.Load([]Name{n})
		case 3:
			o.s.Mark(op, "H/7", []ctlfile.Mark{{Offset: at, Tag: ctlfile.Failed, Diagnose: true, Text: "x"}})
		case 4:
			o.s.Hold(op, "H/7")
		case 5:
			o.s.Release(op, "H/7")
		case 6:
			_ = o.s.places.quarantine("H/7", "an attack")
		}
	}
	o.s.Close()
	close(done)
	attacker.Wait()
	if after := snapshot(t, outside); after != before {
		t.Errorf("outside:\n%s\nwas\n%s", after, before)
	}
}

// TestFileThatChangesWhileItIsRead: whatever another process makes of a control file
// while it is read and marked, it is read as a whole or refused.
func TestFileThatChangesWhileItIsRead(t *testing.T) {
	o := newTestSpool(t)
	long := control("7", strings.Split(strings.Repeat(toBob+"\n", 2000)+toCarol, "\n")...)
	texts := []string{control("7", toBob), long, long[:len(long)/2], "", "garbage"}
	o.put("7", long)
	o.open(Options{})
	path := filepath.Join(o.dir, "transport/7")
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			// In place: a reader sees every length and any mixture.
			if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
				_ = f.Truncate(0)
				_, _ = f.WriteString(texts[i%len(texts)])
				_ = f.Close()
			}
		}
	})
	results := map[string]int{}
	for range 300 {
		for _, r := range o.load("7") {
			switch r := r.(type) {
			case Loaded:
				results[fmt.Sprint("loaded with ", len(r.Recipients))]++
				if n := len(r.Recipients); n != 1 && n != 2001 {
					t.Errorf("half a file was loaded, with %d recipients", n)
				}
			case Refused:
				results[fmt.Sprint(r.Why)]++
			}
		}
	}
	close(done)
	writer.Wait()
	t.Log(results)
}
