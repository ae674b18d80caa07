package owner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"zsched/internal/postoffice"
)

// claimed takes a postoffice, as the node's scheduler does at its start.
func claimed(t *testing.T, c Claim) *Owner {
	t.Helper()
	o, err := c.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Release)
	return o
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// leftBy makes the file of an owner on another machine that died.
func leftBy(t *testing.T, office string, r Record) {
	t.Helper()
	text, err := r.encode()
	if err == nil {
		err = os.WriteFile(filepath.Join(office, ownerName), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// dead is the record of a node on another machine.
func dead(epoch uint64) Record {
	return Record{Epoch: epoch, Held: true, Node: "mx1", Host: "mx1.example", Machine: "boot-of-mx1/1", PID: 4711}
}

func TestEpochGrowsWithEachOwner(t *testing.T) {
	office := t.TempDir()
	first := claimed(t, Claim{Postoffice: office, Node: "mx1"})
	if first.Epoch != 1 {
		t.Errorf("the first owner has epoch %d", first.Epoch)
	}
	first.Release()
	second := claimed(t, Claim{Postoffice: office, Node: "mx1"})
	if second.Epoch != 2 || second.Before.Held {
		t.Errorf("after a stop and a start: epoch %d, before: %v", second.Epoch, &second.Before)
	}
}

func TestPostofficeInUseIsNotTaken(t *testing.T) {
	office := t.TempDir()
	claimed(t, Claim{Postoffice: office, Node: "mx1"})
	c := Claim{Postoffice: office, Node: "mx2", TakeOver: true}
	if _, err := c.Acquire(context.Background()); !errors.Is(err, ErrRunning) {
		t.Errorf("taking what another scheduler of this machine has: %v", err)
	}
}

func TestDeadNodeIsReplacedOnlyOnOrder(t *testing.T) {
	office := t.TempDir()
	leftBy(t, office, dead(6))
	c := Claim{Postoffice: office, Node: "mx2"}
	if o, err := c.Acquire(context.Background()); err == nil {
		t.Error("it was taken over")
		o.Release()
	}
	ordered := claimed(t, Claim{Postoffice: office, Node: "mx2", TakeOver: true})
	if ordered.Epoch != 7 || ordered.Before.Node != "mx1" {
		t.Errorf("with -P: %v after %v", &ordered.Record, &ordered.Before)
	}
}

// A node that was stopped for as long as an answer holds notices a takeover before it writes
// again, and none releases what is not its own.
func TestHigherEpochEndsTheOwner(t *testing.T) {
	for _, stopped := range []time.Duration{0, answerKept} {
		synctest.Test(t, func(t *testing.T) {
			office := t.TempDir()
			mine := claimed(t, Claim{Postoffice: office, Node: "mx1"})
			if err := mine.Check(); err != nil {
				t.Fatalf("with nobody else there: %v", err)
			}
			leftBy(t, office, Record{Epoch: 2, Held: true, Node: "mx2", Host: "h", Machine: "m/1", PID: 1})
			time.Sleep(stopped)
			for range 2 {
				if err := mine.Check(); errors.Is(err, ErrDisowned) != (stopped > 0) {
					t.Errorf("%v after a takeover: %v", stopped, err)
				}
			}
			mine.Release()
			text, err := os.ReadFile(filepath.Join(office, ownerName))
			if now, e := parseOwner(string(text)); err != nil || e != nil || now.Epoch != 2 || !now.Held {
				t.Errorf("the file of the new owner is %q", text)
			}
		})
	}
}

// The owner before has begun no write later than answerKept after the takeover, whatever it was
// told just before it: nobody else works in the postoffice until then.
func TestTakeoverOutlastsTheAnswersOfTheOwnerBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		office := t.TempDir()
		before := claimed(t, Claim{Postoffice: office, Node: "mx1"})
		check(t, before.Check())
		// Its machine is another one, and its lock is gone with its connection to the file server.
		before.Machine = "boot-of-mx1/1"
		check(t, before.write())
		check(t, before.file.Close())
		file, err := postoffice.OpenFile(filepath.Join(office, ownerName), os.O_RDWR)
		check(t, err)
		before.file = file
		claimed(t, Claim{Postoffice: office, Node: "mx2", TakeOver: true})
		if err := before.Check(); !errors.Is(err, ErrDisowned) {
			t.Errorf("both may write: %v", err)
		}
	})
}

func TestGarbageIsNoOwner(t *testing.T) {
	office := t.TempDir()
	if err := os.WriteFile(filepath.Join(office, ownerName), []byte("epoch many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Claim{Postoffice: office, Node: "mx1", TakeOver: true}
	if _, err := c.Acquire(context.Background()); err == nil {
		t.Error("a file that cannot be read was overwritten")
	}
}
