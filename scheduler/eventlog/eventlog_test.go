package eventlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// manualNames are the names that a section of scheduler-events(5) explains.
func manualNames(t *testing.T, section string) []string {
	t.Helper()
	page, err := os.ReadFile("../../man/scheduler-events.5")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\n.SH "+section+"\n")
	if !found {
		t.Fatalf("no section %s", section)
	}
	body, _, _ := strings.Cut(after, "\n.SH ")
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^\.TP\n\.BR? (.+)$`).FindAllStringSubmatch(body, -1) {
		for name := range strings.FieldsSeq(strings.ReplaceAll(line[1], `", "`, " ")) {
			names = append(names, strings.ReplaceAll(name, `\-`, "-"))
		}
	}
	return names
}

// namesInSource are the names that the source of this package gives to one of its functions.
func namesInSource(t *testing.T, pattern string) (names []string) {
	t.Helper()
	for _, name := range []string{"domains.go", "eventlog.go", "file.go", "line.go", "message.go", "texts.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

func TestManualHasEveryEventAndFieldAndNoOther(t *testing.T) {
	events := namesInSource(t, `\b(?:begin|beginLine|event)(?:, status, class|, class)?(?: :?= |\([^")\n]*)"([a-z-]+)"`)
	events = append(events, "order", "blocked", "suspended", "rule", "undone", "gone", "lost") // conditions of the core, and of the log
	fields := namesInSource(t, `\b(?:text|number|time|Float64)\("([a-z_]+)", `)
	fields = append(fields, "original", "alias")
	for section, known := range map[string][]string{"EVENTS": events, "FIELDS": fields} {
		names := manualNames(t, section)
		for _, name := range known {
			if !slices.Contains(names, name) {
				t.Errorf("%s of the manual lacks %s", section, name)
			}
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Errorf("%s of the manual explains %s, which does not exist", section, name)
			}
		}
	}
}

// told returns the lines that tell writes, as objects.
func told(t *testing.T, tell func(l *Log)) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	tell(New(&out))
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, object)
	}
	return lines
}

var began = time.Date(2026, 11, 22, 8, 15, 6, 123456789, time.UTC)

func arrivedMessage(id scheduler.MessageID, users ...string) scheduler.Arrived {
	m := scheduler.Message{ID: id, Path: "12", MessageID: "<1@a>", Sender: "a@b", ModifiedAt: began, Size: 800}
	for i, user := range users {
		m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(100 * (i + 1)), Channel: "smtp", Host: "h", User: user})
	}
	return scheduler.Arrived{Message: m}
}

func TestLifeOfAMessage(t *testing.T) {
	later := began.Add(1500 * time.Millisecond)
	lines := told(t, func(l *Log) {
		l.Event(began, arrivedMessage(12, "u@h", "v@h"))
		l.Action(began, scheduler.Start{Agent: 3, Command: []string{"A=b", "/usr/lib/ta/smtp", "-c", "smtp"}})
		l.Event(began, scheduler.AgentStarted{Agent: 3, PID: 711})
		l.Action(later, &scheduler.Outcome{
			Message: 12, Offset: 200, Channel: "smtp", Host: "h", Agent: 3, State: "deferred", Attempts: 1, NextAt: later.Add(time.Minute),
			Notary: "v@h\x01delayed\x014.7.1 (try later)\x01smtp; 451\x01dns; mx.h (192.0.2.1)", Text: "<<- RCPT\r->> 451 4.7.1 greylisted",
		})
		l.Result(later, spool.Answered{Action: &scheduler.Finish{Recipients: 2, Failed: 1}, Op: 7, Message: 12})
	})
	if len(lines) != 4 {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	attempt := lines[2]
	for name, want := range map[string]any{
		"time": "2026-11-22T08:15:07.623Z", "event": "attempt", "spoolid": ctlfile.SpoolID(12, began), "message_id": "<1@a>", "sender": "a@b",
		"recipient": "v@h", "channel": "smtp", "host": "h", "pid": 711.0, "command": "smtp -c smtp", "peer": "mx.h (192.0.2.1)",
		"status": "deferred", "class": 4.0, "dsn": "4.7.1", "text": "451 4.7.1 greylisted",
		"since": "2026-11-22T08:15:06.123Z", "delay": 1.5, "attempts": 1.0, "next": "2026-11-22T08:16:07.623Z",
	} {
		if attempt[name] != want {
			t.Errorf("%s is %v instead of %v", name, attempt[name], want)
		}
	}
	if lines[3]["event"] != "end" || lines[3]["failed"] != 1.0 {
		t.Errorf("the end is %v", lines[3])
	}
}

// The addresses of a message are found by offset, and only those of its open recipients.
func TestEachRecipientHasItsAddress(t *testing.T) {
	for _, recipients := range []int{0, 1, 2, 3, 100} {
		users := make([]string, recipients)
		for i := range users {
			users[i] = strings.Repeat("u", 1+i*7%40) + strconv.Itoa(i) + " x@h"
		}
		lines := told(t, func(l *Log) {
			l.Event(began, arrivedMessage(12, users...))
			for offset := range int64(recipients+2) * 100 {
				if offset%50 == 0 {
					l.Action(began, &scheduler.Outcome{Message: 12, Offset: offset, State: "ok"})
				}
			}
		})
		for i, attempt := range lines[max(1, recipients):] {
			var want any
			if n := i / 2; i%2 == 0 && 1 <= n && n <= recipients {
				want = users[n-1]
			}
			if attempt["recipient"] != want {
				t.Errorf("of %d recipients, the one at %d is %v instead of %v", recipients, 50*i, attempt["recipient"], want)
			}
		}
	}
}

// Every text that may be in a line of a control file comes back, with or without a number for its
// end.
func TestShortenedTextsAreRestored(t *testing.T) {
	d := domains{numbers: make(map[string]int)}
	check := func(text string) string {
		t.Helper()
		short := d.shorten(text)
		if got := d.restore(short); got != text || strings.Contains(short, "\n") {
			t.Fatalf("%q became %q and then %q", text, short, got)
		}
		return short
	}
	for _, text := range []string{"", "@", "u", "u@h", "U@H", `"u@x"@h`, "<1@h>", "<>", "\x00", "u\x00", "u\x00@h", "u@h\x00", "\x001", "u@h\x001", "u\x00\x00", "u@" + strings.Repeat("h", maxDomain)} {
		check(text)
	}
	for n := range maxDomains + 100 {
		text := "user@h" + strconv.Itoa(n) + ".example"
		hadRoom := len(d.names) < maxDomains
		if isShorter := len(check(text)) < len(text); isShorter != hadRoom {
			t.Fatalf("%s is shorter: %v, with %d domains", text, isShorter, len(d.names))
		}
	}
	if len(d.names) != maxDomains {
		t.Errorf("%d domains are kept, want %d", len(d.names), maxDomains)
	}
}

// Texts that come and go are as in a map, and take no more blocks than they need.
func TestTextsOfMessages(t *testing.T) {
	texts, want := newTexts(), make(map[scheduler.MessageID]string)
	random := rand.New(rand.NewPCG(1, 2))
	compare := func(id scheduler.MessageID) {
		t.Helper()
		text, found := texts.find(id)
		if w, is := want[id]; text != w || found != is {
			t.Fatalf("%d: %.20q (%d bytes), %v, want %.20q (%d bytes), %v", id, text, len(text), found, w, len(w), is)
		}
	}
	for step := range 200_000 {
		id := scheduler.MessageID(random.Uint64N(5000)) << (random.UintN(2) * 50)
		if texts.remove(id); random.IntN(5000) > step%10_000 {
			want[id] = strings.Repeat(strconv.Itoa(step), random.IntN(30)+random.IntN(1000)/999*20_000)
			texts.add(id, want[id])
		} else {
			delete(want, id)
		}
		compare(id)
		total := 0
		if step%1000 > 0 {
			continue
		}
		for id, text := range want {
			compare(id)
			total += 20 + len(text)
		}
		used := len(texts.blocks) - len(texts.free)
		if most := 2*total/blockSize + 3; used > most || texts.index.Len() != len(want) {
			t.Fatalf("step %d: %d blocks, want at most %d; %d texts, want %d", step, used, most, texts.index.Len(), len(want))
		}
	}
}

// A message to very many does not drive lines about other messages out of the log: each time when all
// its recipients come together, there is one line.
func TestManyRecipientsArriveInOneLine(t *testing.T) {
	for _, many := range []bool{false, true} {
		recipients, want := manyRecipients, 3*manyRecipients
		if many {
			recipients, want = recipients+1, 3
		}
		e := arrivedMessage(12, slices.Repeat([]string{"u@h"}, recipients)...)
		for range recipients {
			e.Message.Done = append(e.Message.Done, ctlfile.DoneRecipient{Tag: ctlfile.Delivered, Channel: "smtp", Host: "h", User: "d@h"})
		}
		lines := told(t, func(l *Log) {
			l.Event(began, e)
			l.Result(began, spool.Answered{Action: scheduler.Release{}, Op: 2, Message: 12})
		})
		if len(lines) != want {
			t.Fatalf("%d recipients: %d lines", recipients, len(lines))
		}
		for _, line := range lines {
			if line["event"] != "done" && line["text"] != "released" && line["recipients"] != float64(recipients) || many == (line["recipient"] != nil) {
				t.Fatalf("%d recipients: %v", recipients, line)
			}
		}
	}
}

// A notice while the message is still in the queue is an event of the message.
func TestInterimNoticeIsAnEvent(t *testing.T) {
	lines := told(t, func(l *Log) {
		l.Event(began, arrivedMessage(12, "u@h"))
		l.Result(began, spool.Answered{Action: scheduler.Report{}, Op: 3, Message: 12, Notice: "router/77"})
		l.Result(began, spool.Answered{Action: scheduler.Report{}, Op: 4, Message: 12}) // nobody gets one
	})
	if len(lines) != 2 || lines[1]["event"] != "notice" || lines[1]["new"] != "router/77" || lines[1]["spoolid"] != ctlfile.SpoolID(12, began) {
		t.Errorf("%v", lines)
	}
}

func TestHoldOfAThreadSaysWhoAndWhy(t *testing.T) {
	lines := told(t, func(l *Log) {
		l.Event(began, scheduler.HeldThread{Channel: "smtp", Host: "h", Held: true, HoldOrder: scheduler.HoldOrder{By: "root uid 0", Because: "a\nstorm"}})
		l.Event(began, scheduler.HeldThread{Channel: "smtp", Host: "h", HoldOrder: scheduler.HoldOrder{By: "scheduler"}})
	})
	if len(lines) != 2 || lines[0]["event"] != "hold" || lines[0]["by"] != "root uid 0" || lines[0]["because"] != "a storm" ||
		lines[1]["event"] != "release" || lines[1]["by"] != "scheduler" {
		t.Errorf("%v", lines)
	}
}

// A text of the other side cannot break the line, whatever is in it.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"plain", "\"\\\x00\x1b[2J\x7f", "\u202e\u2028\u0085é世😀", "\xff\xc3", strings.Repeat("é", maxText)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, said string) {
		var out bytes.Buffer
		New(&out).begin("attempt").text("text", said).write()
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
		want := strings.ToValidUTF8(said, "\ufffd")
		if len(said) <= maxText && len([]rune(want)) == len([]rune(said)) && got["text"] != string([]rune(said)) {
			t.Fatalf("%q became %q", said, got["text"])
		}
		for _, c := range strings.TrimSuffix(out.String(), "\n") {
			if !unicode.IsPrint(c) {
				t.Fatalf("%U in %q", c, out.Bytes())
			}
		}
		if len(got["text"]) > maxText*3+3 {
			t.Fatalf("%d bytes of text", len(got["text"]))
		}
	})
}

// While the file cannot be written, a bounded number of lines is kept. The log is told how
// many were lost.
func TestLostLinesAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const written = 10_000
	long := []byte(strings.Repeat("x", 999) + "\n")
	for range written {
		w.Write(long)
	}
	lines := bufio.NewScanner(reader)
	whole := 0
	for lines.Scan() && !strings.Contains(lines.Text(), `"lost"`) {
		if len(lines.Text()) == 999 {
			whole++
		}
	}
	var told struct{ Lines int }
	if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	if w.LostLines() != uint64(told.Lines) || whole+told.Lines < written {
		t.Errorf("%d lines are told, %d counted, %d of %d came", told.Lines, w.LostLines(), whole, written)
	}
}

func TestRelativePlaceIsRefused(t *testing.T) {
	for _, place := range []string{"events", "UNIX:/events"} {
		if _, err := Open(place); err == nil {
			t.Errorf("%s is taken", place)
		}
	}
}

func BenchmarkAttempt(b *testing.B) {
	l := New(io.Discard)
	l.Event(began, arrivedMessage(12, "user@destination.example"))
	l.Action(began, scheduler.Start{Agent: 3, Command: []string{"smtp", "-c", "smtp"}})
	a := scheduler.Outcome{
		Message: 12, Offset: 100, Channel: "smtp", Host: "destination.example", Agent: 3, State: "ok", Attempts: 1,
		Notary: "user@destination.example\x01relayed\x012.0.0\x01smtp; 250\x01dns; mx.destination.example", Text: "250 2.0.0 Ok: queued as 4F2",
	}
	b.ReportAllocs()
	for b.Loop() {
		l.outcome(&a)
	}
}

// BenchmarkMemory measures the live heap for a message in the queue, by its recipients.
func BenchmarkMemory(b *testing.B) {
	const messages = 300_000
	for _, recipients := range []int{1, 10} {
		b.Run(strconv.Itoa(recipients), func(b *testing.B) {
			for b.Loop() {
				l := New(io.Discard)
				before := heapInUse()
				for id := range messages / recipients {
					users := make([]string, recipients)
					for i := range users {
						users[i] = fmt.Sprintf("user%06d@h%d.example", id, i)
					}
					e := arrivedMessage(scheduler.MessageID(id+1), users...)
					e.Message.MessageID = fmt.Sprintf("<20261122081506.%06d@client.example>", id)
					e.Message.Sender = fmt.Sprintf("user%06d@client.example", id)
					l.Event(began, e)
				}
				b.ReportMetric(float64(heapInUse()-before)/(messages/float64(recipients)), "B/message")
				runtime.KeepAlive(l)
			}
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestNoNoticeIsOwedToTheNullSender(t *testing.T) {
	for _, null := range []bool{false, true} {
		lines := told(t, func(l *Log) {
			e := arrivedMessage(12, "u@h")
			e.Message.NullSender, e.Message.Owes = null, true
			l.Event(began, e)
		})
		if owed := lines[len(lines)-1]["event"] == "owed"; owed == null {
			t.Errorf("null sender %v: owed %v", null, owed)
		}
	}
}

// What an agent did while no scheduler was running is known from the tags only.
func TestRecipientsThatWereDoneAreEvents(t *testing.T) {
	e := arrivedMessage(12)
	e.Message.Done = []ctlfile.DoneRecipient{
		{Tag: ctlfile.Delivered, Channel: "smtp", Host: "h", User: "u@h"},
		{Tag: ctlfile.Failed, Channel: "smtp", Host: "h", User: "v@h", Notary: "v@h\x01failed\x015.1.1 (no)\x01smtp; 550", Text: "<<- RCPT\r->> 550 unknown"},
	}
	lines := told(t, func(l *Log) { l.Event(began, e) })
	if len(lines) != 3 || lines[1]["event"] != "done" || lines[1]["recipient"] != "u@h" || lines[1]["status"] != "+" ||
		lines[1]["spoolid"] != ctlfile.SpoolID(12, began) ||
		lines[2]["status"] != "-" || lines[2]["dsn"] != "5.1.1" || lines[2]["text"] != "550 unknown" {
		t.Errorf("%v", lines)
	}
}

// A message that is held and released is still known: the order is written before it arrives
// again.
func TestHoldAndReleaseAreEvents(t *testing.T) {
	lines := told(t, func(l *Log) {
		l.Event(began, arrivedMessage(12, "u@h"))
		l.Action(began, scheduler.Hold{Op: 1, Message: 12, Path: "12"})
		l.Result(began, spool.Answered{Action: scheduler.Hold{}, Op: 1, Message: 12})
		l.Action(began, scheduler.Condition{State: "order", Message: 12, Order: "RELEASE", By: "root"})
		l.Action(began, scheduler.Release{Op: 2, Message: 12, Path: "12"})
		l.Result(began, spool.Answered{Action: scheduler.Release{}, Op: 2, Message: 12})
	})
	if len(lines) != 4 || lines[1]["event"] != "hold" || lines[2]["order"] != "RELEASE" || lines[3]["text"] != "released" || lines[3]["recipient"] != "u@h" {
		t.Errorf("%v", lines)
	}
}

func TestQuarantineIsTheEndOfTheMessage(t *testing.T) {
	refused := spool.Refused{Name: spool.Name{Path: "12", ID: 12}, Why: spool.Quarantined, Reason: "torn", Tries: 3, ModifiedAt: began}
	lines := told(t, func(l *Log) {
		l.Event(began, arrivedMessage(12, "u@h"))
		l.Result(began, refused)
		l.Action(began, scheduler.Condition{State: "gone", Message: 12})
		l.Result(began, refused) // of a file that was not known
	})
	if len(lines) != 3 {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	for i, sender := range []any{"a@b", nil} {
		if l := lines[1+i]; l["event"] != "quarantined" || l["spoolid"] != ctlfile.SpoolID(12, began) || l["sender"] != sender || l["text"] != "torn" {
			t.Errorf("line %d is %v", 1+i, l)
		}
	}
}
