package spool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
)

// stored are the paths of the messages in a place, sorted.
// All reads the messages in a place, in no order. At most one control file is in memory. A
// message that is moved meanwhile may come twice or not at all. One that cannot be read comes
// as an error, after which All continues. When ctx is done, its error comes last.
func (f *Files) All(ctx context.Context, p Place) iter.Seq2[*Stored, error] {
	return func(yield func(*Stored, error) bool) {
		ended := false
		err := f.places.eachName(ctx, p, func(n Name) bool {
			m, err := f.places.readStored(p, n)
			ended = (m != nil || err != nil) && !yield(m, err)
			return !ended
		})
		if err != nil && !ended {
			yield(nil, err)
		}
	}
}

func (o *testSpool) stored(p Place) []string {
	o.t.Helper()
	var list []string
	for m, err := range o.s.Files().All(o.t.Context(), p) {
		check(o.t, err)
		list = append(list, m.Place.dir()+m.Name.Path)
	}
	slices.Sort(list)
	return list
}

// library is a test spool with messages in every place.
func library(t *testing.T) *testSpool {
	o := newTestSpool(t)
	o.put("F/F/258367", control("258367", toBob, strings.Replace(toCarol, "r ", "r+", 1)))
	o.put("7", strings.Replace(control("7", "r           smtp x.example \"carol x\"@x.example 0"),
		"s local alice@x.example", "s error <>", 1))
	for place, path := range map[string]string{"hold/": "I/8", "corrupt/": "K/10"} {
		o.write(place+"transport/"+path, control(path[2:], toBob))
		o.write(place+"queue/"+path, "message")
	}
	o.write("corrupt/transport/K/10.reason", "transport/K/10, a time\nthe i line is odd\n")
	o.write("corrupt/transport/11.1", "garbage")
	o.write("corrupt/transport/11.1.reason", "transport/11, a time\ngarbage\n")
	o.write("transport/12-etrn", "T x.example 192.0.2.1\n")
	o.write("transport/.13", "in the making")
	return o.open(Options{})
}

func TestAll(t *testing.T) {
	o := library(t)
	for place, want := range [][]string{{"12-etrn", "7", "F/F/258367"}, {"hold/I/8"}, {"corrupt/11.1", "corrupt/K/10"}} {
		if got := o.stored(Place(place)); !slices.Equal(got, want) {
			t.Errorf("%v: %q, want %q", Place(place), got, want)
		}
	}
}

func TestShow(t *testing.T) {
	o := library(t)
	for id, want := range map[string]string{
		"258367": "F/F/258367", "F/F/258367": "F/F/258367", "I/8": "hold/I/8", "hold/I/8": "hold/I/8",
		"10": "corrupt/K/10", "11.1": "corrupt/11.1", "12-etrn": "12-etrn",
		o.spoolID("queue/7"): "7",
	} {
		m, err := o.s.Files().Show(id)
		if err != nil || m == nil || m.Place.dir()+m.Name.Path != want {
			t.Fatalf("%s: %+v, %v", id, m, err)
		}
		text := o.read(m.Place.dir() + "transport/" + m.Name.Path)
		if m.Control != int64(len(text)) {
			t.Errorf("%s: %+v", id, m)
		}
		switch want {
		case "12-etrn":
			if m.Size != -1 || !m.ModifiedAt.IsZero() || len(m.File.Triggers) != 1 {
				t.Errorf("%+v", m)
			}
		case "corrupt/11.1":
			if m.Size != -1 || m.File != nil || m.Reason != "garbage" {
				t.Errorf("%+v", m)
			}
		case "corrupt/K/10":
			if m.Size != 7 || m.File == nil || m.Reason != "the i line is odd" {
				t.Errorf("%+v", m)
			}
		case "7":
			if m.SpoolID() != id || !m.File.NullSender || m.Reason != "" {
				t.Errorf("%+v", m)
			}
		}
	}
	for _, id := range []string{"", "11", "13", "F/258367", "S258367AbTCLWiT", "F/F/", "hold/8", "hold/F/F/258367", "no", "../transport/7", "F/F/F/258367"} {
		if m, err := o.s.Files().Show(id); m != nil || err != nil {
			t.Errorf("%q: %+v, %v", id, m, err)
		}
	}
}

// Another message has the number now.
func TestShowOfAnOldSpoolID(t *testing.T) {
	o := newTestSpool(t)
	o.put("F/F/258367", control("258367", toBob))
	o.open(Options{})
	id, _ := parseIdentity("S258367AbTCLWiT")
	if n, err := o.s.places.find(Queue, id); n.ID != 0 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestAllEndsWithItsContext(t *testing.T) {
	o := newTestSpool(t)
	for i := range 10 {
		o.put(fmt.Sprint(100+i), control(fmt.Sprint(100+i), toBob))
	}
	o.open(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := 0
	var last error
	for _, err := range o.s.Files().All(ctx, Queue) {
		if last = err; err == nil {
			found++
			cancel()
		}
	}
	if found != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d found, then %v", found, last)
	}
	for range o.s.Files().All(t.Context(), Queue) {
		break // and no more is read
	}
}

func TestWalkGoesOnBehindWhatItCannotRead(t *testing.T) {
	o := newTestSpool(t)
	o.put("8", control("8", toBob))
	o.open(Options{})
	var errs []error
	w := &walker{visit: func(Name) bool { return true }, fail: func(_, _ string, err error) { errs = append(errs, err) }}
	transport := o.s.places.pairs[Queue].transport
	for _, name := range []string{"B", "8"} {
		if !w.hashDir(transport, "", name, 1) || len(errs) != 0 {
			t.Errorf("a directory that has gone, or a file: %v", errs)
		}
	}
	if !w.hashDir(-1, "", "C", 1) || len(errs) != 1 {
		t.Errorf("one that cannot be opened: %v", errs)
	}
}

func TestQuarantinedMailIsRead(t *testing.T) {
	o := newTestSpool(t)
	for _, path := range []string{"corrupt/%s/7", "corrupt/%s/A/8"} {
		o.write(fmt.Sprintf(path, "transport"), control("7", toBob))
		o.write(fmt.Sprintf(path, "queue"), "message")
	}
	o.write("corrupt/transport/A/8.reason", "a time\ngarbage\n")
	reasons := make(map[string]string)
	err := o.open(Options{}).s.Files().EachQuarantined(t.Context(), func(m *Stored) { reasons[m.Name.Path] = m.Reason })
	if err != nil || len(reasons) != 2 || reasons["A/8"] != "garbage" {
		t.Errorf("%q, %v", reasons, err)
	}
}
