package top

import (
	"errors"
	"strings"
	"testing"

	"zsched/mailq"
)

// TestTopAsksBeforeItActs: an order is counted first, and given after y and no
// other key.
func TestTopAsksBeforeItActs(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	s.press("t")
	s.lastIs("RETRY thread smtp/busy.example.net: 2 messages, 3 recipients, 1 thread? (y/n)")
	s.press("enter", "t", "n", "t", "esc", "t", "q")
	if q.given() != "" || s.quit || s.last() != "nothing done" {
		t.Errorf("%q, left %v, %s", q.given(), s.quit, s.last())
	}
	if got := q.counted[0]; got != "RETRY THREAD smtp busy.example.net DRYRUN" {
		t.Errorf("%s", got)
	}
	s.press("t", "y")
	if got := q.given(); got != "RETRY THREAD smtp busy.example.net" {
		t.Errorf("%s", got)
	}
	s.lastIs("RETRY 2 messages, 3 recipients, 1 thread")
	q.would, q.failed = mailq.Outcome{}, []error{errors.New("nothing \x1b[2Jmatches")}
	s.press("r")
	s.lastIs("RELEASE: nothing ^[[2Jmatches")
}

func TestTopGivesEveryOrder(t *testing.T) {
	for _, test := range []struct {
		keys []string
		want string
	}{
		{[]string{"h", "enter", "enter", "y"}, "HOLD THREAD smtp busy.example.net"},
		{[]string{"h", "2x", "enter", "bs", "h", "enter", "they asked", "enter", "y"}, "HOLD THREAD smtp busy.example.net FOR 2h BECAUSE they asked"},
		{[]string{"r", "y"}, "RELEASE THREAD smtp busy.example.net"},
		{[]string{"t", "Y"}, "RETRY THREAD smtp busy.example.net"},
		{[]string{"X", "gone", "enter", "y"}, "EXPIRE THREAD smtp busy.example.net BECAUSE gone"},
		{[]string{"K", "enter", "y"}, "KILL THREAD smtp busy.example.net"},
		{[]string{"Q", "enter", "y"}, "REQUEUE WHERE channel=smtp host=busy.example.net"},
		{[]string{"R", "relay", "enter", "/x", "enter", "enter", "y"}, "REROUTE THREAD smtp busy.example.net relay x"},
		{[]string{"enter", "K", "spam", "enter", "y"}, "KILL MSG S10568691AbmKVKzPvUuqp BECAUSE spam"},
		{[]string{"enter", "Q", "enter", "y"}, "REQUEUE MSG S10568691AbmKVKzPvUuqp"},
		{[]string{"3", "t", "y"}, "RETRY THREAD local fred"},
		{[]string{"4", "X", "enter", "y"}, `EXPIRE WHERE reason="deferred on request"`},
		{[]string{"5", "r", "y"}, "RELEASE THREAD smtp held.example"},
		{[]string{"5", "down", "r", "y"}, "RELEASE MSG S10571489AbmKVKzPyNgM9"},
		{[]string{"2", "t", "y"}, ""},
		{[]string{"e", "t", "y"}, ""},
		{[]string{"h", "esc", "y"}, ""},
		{[]string{"R", "esc"}, ""},
	} {
		q := newRecorded(t)
		s := newTestScreen(t, q, 100, 12)
		s.press(test.keys...)
		if got := q.given(); got != test.want {
			t.Errorf("%q: %s, want %s", test.keys, got, test.want)
		}
	}
}

func TestTopAsksAgainForBadArguments(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	s.press("h", "soon", "enter")
	if got := s.last(); !strings.HasPrefix(got, "hold for a time such as 2h (empty: until released): soon   (time=") {
		t.Errorf("%s", got)
	}
	s.press("esc", "R", "nowhere", "enter")
	s.lastIs(`reroute to channel/host: nowhere   ("nowhere" is not channel/host)`)
}

// A selection of messages is about the threads that are marked.
func TestTopNarrowsSelectionsToMarkedThreads(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 12)
	s.press("m", "/", "sender=bob@*", "enter", "M", "K", "enter", "y")
	if got := q.given(); got != "KILL WHERE thread=smtp/busy.example.net sender=bob@*" {
		t.Errorf("%s", got)
	}
}

// An order for many messages needs a whole word.
func TestTopWantsYesForManyMessages(t *testing.T) {
	q := newRecorded(t)
	q.would.Messages = maxUnconfirmed + 1
	s := newTestScreen(t, q, 120, 12)
	s.press("K", "spam", "enter")
	s.lastIs("KILL thread smtp/busy.example.net would touch 101 messages; type yes:")
	s.press("y", "enter")
	s.lastIs("nothing done")
	s.press("K", "spam", "enter", "esc")
	s.lastIs("nothing done")
	if q.given() != "" {
		t.Errorf("%s", q.given())
	}
	s.press("K", "spam", "enter", "yes", "enter")
	if got := q.given(); got != "KILL THREAD smtp busy.example.net BECAUSE spam" {
		t.Errorf("%s", got)
	}
	q.would.Messages = maxUnconfirmed
	s.press("t")
	s.lastIs("RETRY thread smtp/busy.example.net: 100 messages, 3 recipients, 1 thread? (y/n)")
}

func TestTopMarks(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 100, 24)
	s.press("m", "down", "m")
	got := s.shown()
	if got[4] != " *smtp/busy.example.net      6      6            4s    3/3 in 9m1s       deferred on request" || got[7][:2] != "> " ||
		!strings.HasSuffix(got[2], "by RCPTS, 2 lines marked") {
		t.Errorf("%q", got)
	}
	s.lastIs("orders are for the marked lines   c clear marks   ? help   q quit")
	s.press("t")
	s.lastIs("RETRY 2 marked lines: 2 messages, 3 recipients, 1 thread? (y/n)")
	s.press("y")
	if got := q.given(); got != "RETRY WHERE thread=smtp/busy.example.net thread=smtp/down.example.com" {
		t.Errorf("%s", got)
	}
	if len(s.page().marks) != 0 {
		t.Errorf("%v", s.page().marks)
	}
	// All that the filter shows, and nothing that comes later.
	q.orders = nil
	s.press("/", "local/", "enter", "M", "esc")
	q.snapshot.Threads = q.snapshot.Threads[:len(q.snapshot.Threads)-2]
	s.press(" ", "t", "y")
	if got := q.given(); got != "RETRY WHERE thread=local/fred thread=local/anne" {
		t.Errorf("%s", got)
	}
	// A hold is about later mail too.
	s.press(" ", "M", "h", "enter", "enter", "y")
	if got := q.given(); !strings.Contains(got, "HOLD THREAD local fred; HOLD THREAD local anne") {
		t.Errorf("%s", got)
	}
	s.press("m", "M", "c")
	if got := s.page().marked(); got != "" {
		t.Errorf("%s", got)
	}
	// Rings take no orders.
	s.press("2", "m", "M")
	if got := s.page().marked(); got != "" {
		t.Errorf("%s", got)
	}
	s.press("t")
	s.lastIs("nothing to retry here")
}

// All messages of a list are marked as a selection, which also has those that are
// not shown.
func TestTopMarksWholeLists(t *testing.T) {
	q := newRecorded(t)
	q.more = true
	s := newTestScreen(t, q, 120, 24)
	s.press("/", "sender=bob@*", "enter", "M")
	if got := s.shown(); !strings.HasSuffix(got[2], "the first 4, all marked") || got[4][:2] != ">*" {
		t.Errorf("%q", got)
	}
	s.press("X", "enter", "y")
	if got := q.given(); got != "EXPIRE WHERE sender=bob@*" || s.page().everything {
		t.Errorf("%s", got)
	}
	q.orders = nil
	s.press("esc", "enter", "M", "K", "enter", "y")
	if got := q.given(); got != "KILL WHERE channel=smtp host=busy.example.net" {
		t.Errorf("%s", got)
	}
	// Less one message, it is the others that are shown: one order for those in the queue, and
	// one for each that is held.
	q.orders = nil
	s.press("M", "m", "t", "y")
	if got := q.given(); !strings.HasPrefix(got, "RETRY WHERE msg=") || strings.Count(got, " MSG ") != 1 ||
		strings.Count(got, " msg=") != len(s.page().rows)-2 {
		t.Errorf("%s", got)
	}
	// A message has to stay together.
	q.orders = nil
	s.press("M", "m", "Q", "enter", "y")
	if got := q.given(); strings.Count(got, "REQUEUE MSG ") != len(s.page().rows)-1 {
		t.Errorf("%s", got)
	}
}

// A name that would be a pattern is no selection.
func TestTopTakesNoNameForAPattern(t *testing.T) {
	q := newRecorded(t)
	q.snapshot.Threads[0].Host = "busy*"
	s := newTestScreen(t, q, 120, 24)
	s.press("Q", "enter")
	s.lastIs("no selection matches only the thread smtp/busy*")
	s.press("enter", "M", "t", "y")
	if got := q.given(); strings.Contains(got, "host=") || strings.Count(got, "RETRY MSG")+strings.Count(got, " msg=") != len(s.page().rows) {
		t.Errorf("%s", got)
	}
}

// While the server counts, only Esc has an effect.
func TestOrdersAreCanceledWhileTheyAreCounted(t *testing.T) {
	q := newRecorded(t)
	s := newTestScreen(t, q, 120, 24)
	counted := s.propose(mailq.Retry)
	s.lastIs("counting …")
	s.press("t", "q", "esc")
	s.settle(counted)
	s.lastIs("nothing done")
	if s.quit || s.unconfirmed != "" || q.given() != "" {
		t.Errorf("quit %v, %q, %s", s.quit, s.unconfirmed, q.given())
	}
}

// Who types the whole word yes where y is enough gives no other command with the rest.
func TestTopAcceptsYesForY(t *testing.T) {
	s := newTestScreen(t, newRecorded(t), 100, 12)
	before := s.page()
	for _, keys := range [][]string{{"t", "yes", "enter"}, {"t", "YES", "enter"}} {
		s.press(keys...)
		if s.page() != before || !strings.HasPrefix(s.view.note, "RETRY") {
			t.Errorf("%q: %q on another page or with another note", keys, s.view.note)
		}
	}
	s.press("t", "y")
	s.view.answeredAt = s.view.answeredAt.Add(-2 * maxTyping)
	s.press("e")
	if s.page() == before {
		t.Error("e explains nothing after a while")
	}
}
