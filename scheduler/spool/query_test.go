package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sought is what Find finds, as place and path, sorted.
func (o *testSpool) sought(what Query) []string {
	o.t.Helper()
	var list []string
	for m, err := range o.s.Find(o.t.Context(), what) {
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
	for place, n := range map[string]string{"hold/": "8", "corrupt/": "10"} {
		o.write(place+"transport/A/"+n, control(n, toBob))
		o.write(place+"queue/A/"+n, "message")
	}
	o.write("corrupt/transport/A/10.reason", "transport/A/10, a time\nthe i line is odd\n")
	o.write("corrupt/transport/11.1", "garbage")
	o.write("corrupt/transport/11.1.reason", "transport/11, a time\ngarbage\n")
	o.write("transport/12-etrn", "T x.example 192.0.2.1\n")
	o.write("transport/.13", "in the making")
	return o.open(Options{})
}

func TestFind(t *testing.T) {
	o := library(t)
	all := []string{"7", "F/F/258367", "corrupt/11.1", "corrupt/A/10", "hold/A/8"}
	bobs := []string{"F/F/258367", "corrupt/A/10", "hold/A/8"}
	for _, c := range []struct {
		what Query
		want []string
	}{
		{Query{}, all},
		{Query{Places: []Place{Hold}}, []string{"hold/A/8"}},
		{Query{Recipient: "bob@b.example"}, bobs},
		{Query{Recipient: "<BOB@*.example>"}, bobs},
		{Query{Recipient: "bob@b.exampl"}, nil},
		{Query{Recipient: "carol"}, []string{"F/F/258367"}},
		{Query{Recipient: `"carol ?"@*`}, []string{"7"}},
		{Query{LogID: "<m8@x.example>"}, []string{"hold/A/8"}},
		{Query{SpoolID: "258367"}, []string{"F/F/258367"}},
		{Query{SpoolID: "11"}, []string{"corrupt/11.1"}},
		{Query{SpoolID: o.spoolID("hold/queue/A/8")}, []string{"hold/A/8"}},
		{Query{SpoolID: "258367", Places: []Place{Hold}}, nil},
		{Query{SpoolID: "258367", Recipient: "nobody"}, nil},
		{Query{SpoolID: "x"}, nil},
		{Query{SpoolID: "12345"}, nil},
	} {
		if got := o.sought(c.what); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestShow(t *testing.T) {
	o := library(t)
	for id, want := range map[string]string{
		"258367": "F/F/258367", "F/F/258367": "F/F/258367", "A/8": "hold/A/8", "hold/A/8": "hold/A/8",
		"10": "corrupt/A/10", "11": "corrupt/11.1", "11.1": "corrupt/11.1", "12-etrn": "12-etrn",
		o.spoolID("queue/7"): "7",
	} {
		m, found, err := o.s.Show(t.Context(), id)
		if err != nil || !found || m.Place.dir()+m.Name.Path != want {
			t.Fatalf("%s: %+v, %v", id, m, err)
		}
		text := o.read(m.Place.dir() + "transport/" + m.Name.Path)
		if m.Control != int64(len(text)) || m.ChangedAt.IsZero() {
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
		case "corrupt/A/10":
			if m.Size != 7 || m.File == nil || m.Reason != "the i line is odd" {
				t.Errorf("%+v", m)
			}
		case "7":
			if m.SpoolID() != id || !m.File.NullSender || m.Reason != "" {
				t.Errorf("%+v", m)
			}
		}
	}
	for _, id := range []string{"", "13", "F/258367", "S258367AbTCLWiT", "F/F/", "hold/8", "hold/F/F/258367", "no", "../transport/7", "F/F/F/258367"} {
		if m, found, err := o.s.Show(t.Context(), id); m != nil || found || err != nil {
			t.Errorf("%q: %+v, %v", id, m, err)
		}
	}
}

func TestSizesOfMessagesInTheQueueAndUnderHold(t *testing.T) {
	o := library(t)
	size, done, err := o.s.Sizes()
	check(t, err)
	defer done()
	for path, file := range map[string]string{"7": "queue/7", "A/8": "hold/queue/A/8", "A/9": ""} {
		want := int64(0)
		if file != "" {
			want = int64(len(o.read(file)))
		}
		if got := size(path); got != want || file != "" && got == 0 {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// Another message has the number now, and no walk is made for the old one.
func TestShowOfAnOldSpoolID(t *testing.T) {
	o := newTestSpool(t)
	o.put("F/F/258367", control("258367", toBob))
	o.open(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a walk would end with this
	h, err := o.s.openReader(Queue)
	check(t, err)
	defer h.close()
	id, _ := parseIdentity("S258367AbTCLWiT")
	if n, err := h.find(ctx, id); n.ID != 0 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	id, _ = parseIdentity("S258368AbTCLWiT")
	if _, err := h.find(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestFindEndsWithItsContext(t *testing.T) {
	o := newTestSpool(t)
	for i := range 10 {
		o.put(fmt.Sprint(100+i), control(fmt.Sprint(100+i), toBob))
	}
	o.open(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := 0
	var last error
	for _, err := range o.s.Find(ctx, Query{}) {
		if last = err; err == nil {
			found++
			cancel()
		}
	}
	if found != 1 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d found, then %v", found, last)
	}
	for range o.s.Find(t.Context(), Query{}) {
		break // and no more is read
	}
}

// A query under way, or one that comes too late, does not touch what others
// have opened meanwhile.
func TestFindAfterClose(t *testing.T) {
	o := library(t)
	s := o.s
	n := 0
	for m, err := range s.Find(t.Context(), Query{Places: []Place{Queue, Hold}}) {
		if n++; n == 1 {
			if m == nil || err != nil {
				t.Fatal(err)
			}
			o.close()
		} else if m != nil && m.Place != Queue {
			t.Errorf("%+v was read", m)
		}
	}
	if _, found, err := s.Show(t.Context(), "7"); found || err != errClosed {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestWalkGoesOnBehindWhatItCannotRead(t *testing.T) {
	o := newTestSpool(t)
	o.put("8", control("8", toBob))
	o.open(Options{})
	h, err := o.s.openReader(Queue)
	check(t, err)
	defer h.close()
	w := walk{h: h, ctx: t.Context(), visit: func(Name) bool { return true }}
	if !w.read("B/") || len(w.errs) != 0 {
		t.Errorf("a directory that has gone: %v", w.errs)
	}
	if !w.read("8/") || len(w.errs) != 1 {
		t.Errorf("one that is none: %v", w.errs)
	}
}

func TestCountCountsAPlace(t *testing.T) {
	o := newTestSpool(t)
	for _, path := range []string{"hold/%s/7", "hold/%s/A/8"} {
		o.write(fmt.Sprintf(path, "transport"), control("7", toBob))
		o.write(fmt.Sprintf(path, "queue"), "message")
	}
	o.age("hold/queue/A/8", 48*time.Hour)
	s := o.open(Options{}).s
	c, err := s.Count(t.Context(), Hold)
	if err != nil || c.Messages != 2 || c.Oldest.Path != "A/8" || time.Since(c.OldestAt) < 47*time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := s.Count(t.Context(), Corrupt); err != nil || c != (Census{}) {
		t.Errorf("%+v, %v", c, err)
	}
}
