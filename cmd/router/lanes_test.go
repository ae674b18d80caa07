package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// laneOffice is a postoffice whose router gets names one by one.
type laneOffice struct {
	*office
	r    *service
	last int
}

func newLaneOffice(t *testing.T) *laneOffice {
	o := &laneOffice{office: newOffice(t, 0)}
	o.r = o.router()
	o.r.queue.SyncAll = func() error { return nil }
	o.r.log = zerolog.Nop()
	return o
}

// submit adds a message with so many recipients. The subject says how many.
func (o *laneOffice) submit(recipients int) {
	var b strings.Builder
	for i := range recipients {
		fmt.Fprintf(&b, "to <x%d@a.example>\n", i)
	}
	o.put(fmt.Sprintf("%senv-end\nSubject: %d\n\nbody\n", &b, recipients))
}

func (o *laneOffice) put(text string) {
	o.last++
	name := fmt.Sprint(o.last)
	o.write("router/"+name, text)
	o.r.add(name)
}

// batch routes one batch. It returns how many small messages and how many others were queued
// by it, and removes them.
func (o *laneOffice) batch() (few, many int) {
	o.t.Helper()
	o.r.batch()
	for _, path := range o.files("transport") {
		text, err := os.ReadFile(path)
		if err != nil {
			o.t.Fatal(err)
		}
		if strings.Contains(string(text), "Subject: 1\n") {
			few++
		} else {
			many++
		}
		if err := os.Remove(path); err != nil {
			o.t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(o.dir, "queue", filepath.Base(path)))
	}
	return few, many
}

func TestSmallMailPassesLargeMail(t *testing.T) {
	o := newLaneOffice(t)
	const large, waiting = 20, 50
	for range large {
		o.submit(batchRecipients)
	}
	for range waiting {
		o.submit(1)
	}
	done := 0
	for !o.r.idle() {
		few, many := o.batch()
		if few > 0 && many > 0 {
			t.Fatalf("a batch has %d small messages and %d large ones", few, many)
		}
		if many > 1 {
			t.Fatalf("a batch has %d large messages", many)
		}
		if many == 0 {
			done += few
			continue
		}
		if done < waiting {
			t.Fatalf("a large message goes before %d small ones", waiting-done)
		}
		// Later mail waits for one large message.
		o.submit(1)
		if few, many := o.batch(); few != 1 || many != 0 {
			t.Fatalf("after a small message came, %d small and %d large ones were queued", few, many)
		}
		if done++; done == waiting+large {
			break
		}
	}
	if done != waiting+large || !o.r.idle() {
		t.Errorf("%d small messages are queued, %d wait", done, len(o.r.waiting))
	}
}

func TestLargeMailIsNotStarved(t *testing.T) {
	o := newLaneOffice(t)
	for range 3 {
		o.submit(batchRecipients)
	}
	for range 3 {
		for turn := 1; ; turn++ {
			o.submit(1)
			if _, many := o.batch(); many > 0 {
				break
			}
			if turn > smallTurns+1 {
				t.Fatalf("no large message was queued in %d batches", turn)
			}
		}
	}
}

// Medium messages share their batches, and so their waits for the disk.
func TestBatchIsBoundedByRecipients(t *testing.T) {
	o := newLaneOffice(t)
	for range 30 {
		o.submit(1000)
	}
	var batches []int
	for !o.r.idle() {
		if _, many := o.batch(); many > 0 {
			batches = append(batches, many)
		}
	}
	if fmt.Sprint(batches) != "[10 10 10]" {
		t.Errorf("the batches have %v", batches)
	}
}

func TestWhatTakesLongIsLarge(t *testing.T) {
	o := newLaneOffice(t)
	var list strings.Builder
	for i := range 2 * small.Recipients {
		fmt.Fprintf(&list, " x%d@a.example,\n", i)
	}
	o.write("share/aliases", "owner-list: root\nlist: x@a.example\nmany:\n"+list.String()+" z@a.example\n")
	o.r.refresh(true)
	pad := strings.Repeat("x", 4<<20)
	for what, text := range map[string]string{
		"recipients": strings.Repeat("to <x@a.example>\n", small.Recipients+1) + "env-end\n\nbody\n",
		"members":    "to <many@mx.example>\nenv-end\n\nbody\n",
		"envelope":   strings.Repeat("comment "+strings.Repeat("x", 1000)+"\n", 70) + "to <x@a.example>\nenv-end\n\nbody\n",
		"header":     "From: y\nCc: x@a.example\nTo: " + strings.Repeat("x@a.example,\n ", small.Header/14+1) + "x@a.example\n\nbody\n",
	} {
		o.put(text)
		if few, many := o.batch(); few+many > 0 || len(o.r.large) != 1 {
			t.Errorf("%s: it is small", what)
		}
		if _, many := o.batch(); many == 0 || !o.r.idle() {
			t.Errorf("%s: it is not queued: %q", what, o.files("corrupt"))
		}
	}
	for what, text := range map[string]string{
		"recipients":    strings.Repeat("to <x@a.example>\n", small.Recipients) + "env-end\n\nbody\n",
		"a large body":  "to <x@a.example>\nenv-end\n\n" + pad,
		"a list":        "to <x@a.example>\nto <list@mx.example>\nenv-end\n\n" + pad,
		"a long header": "to <x@a.example>\nenv-end\nX-Long: " + strings.Repeat("x\n ", small.Header) + "\n\nbody\n",
	} {
		o.put(text)
		if _, many := o.batch(); many != 1 || !o.r.idle() {
			t.Errorf("%s: it is not small", what)
		}
	}
}
