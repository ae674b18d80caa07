package ctlfile

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func someContents() *Contents {
	return &Contents{
		Name: "258367", Body: 412, MessageID: "<m1@example.org>", ErrorTo: "alice@example.org",
		Blocks: []HeaderBlock{{
			Envelopes: []Envelope{{
				Sender: Address{"smtp", "mx.example.org", "alice@example.org", "0"},
				Recipients: []EnvelopeRecipient{
					{
						Address: Address{"smtp", "example.net", "bob@example.net", "0"},
						DSN:     "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@example.net", Ret: "HDRS", EnvID: "env-77",
					},
					{Address: Address{"local", "", "carol x", "501"}},
				},
			}},
			Header: "Received: by mx\n\tid 1\nSubject: x",
		}},
	}
}

func TestEncodeWritesTheWorkedExample(t *testing.T) {
	text, err := someContents().Encode()
	equal(t, "error", err, nil)
	equal(t, "file", string(text), worked)
}

func TestEncodeOrder(t *testing.T) {
	d := someContents()
	d.Obsoletes = []string{"<1@x>", "<2@x>"}
	to := []EnvelopeRecipient{{Address: Address{"smtp", "mx", "a", "0"}, Class: 3}}
	d.Blocks = []HeaderBlock{
		{Envelopes: []Envelope{{Sender: Address{"local", "", "a", "0"}, Recipients: to}, {Sender: Address{"error", "", "", "0"}, Recipients: to}}},
		{Envelopes: []Envelope{{Sender: Address{"local", "", "b", "0"}, Recipients: to}}, Header: "A: b\n"},
	}
	text, err := d.Encode()
	equal(t, "error", err, nil)
	equal(t, "file", string(text), `@ 0x00000007
i 258367
o 412
l <m1@example.org>
x <1@x>
x <2@x>
e alice@example.org
s local - a 0
X           3 smtp mx a 0
s error - - 0
X           3 smtp mx a 0
m

e alice@example.org
s local - b 0
X           3 smtp mx a 0
m
A: b

`)
}

func TestEncodeRefusesWhatCannotBeReadBack(t *testing.T) {
	first := func(d *Contents) *EnvelopeRecipient { return &d.Blocks[0].Envelopes[0].Recipients[0] }
	for name, spoil := range map[string]func(d *Contents){
		"no name":                 func(d *Contents) { d.Name = "" },
		"directory":               func(d *Contents) { d.Name = "1/2" },
		"name without number":     func(d *Contents) { d.Name = "x1" },
		"body":                    func(d *Contents) { d.Body = -1 },
		"line end in Message-ID":  func(d *Contents) { d.MessageID = "<a>\nr" },
		"line end in error":       func(d *Contents) { d.ErrorTo = "a\nb" },
		"line end in obsoletes":   func(d *Contents) { d.Obsoletes = []string{"a\n"} },
		"line end in sender":      func(d *Contents) { d.Blocks[0].Envelopes[0].Sender.User = "a\nb" },
		"line end in channel":     func(d *Contents) { first(d).Channel = "a\nb" },
		"line end in host":        func(d *Contents) { first(d).Host = "a\nb" },
		"line end in user":        func(d *Contents) { first(d).User = "\"a\nb\"" },
		"line end in DSN":         func(d *Contents) { first(d).DSN = "NOTIFY=NEVER\nr" },
		"line end in RET":         func(d *Contents) { first(d).Ret = "\n" },
		"line end in ENVID":       func(d *Contents) { first(d).EnvID = "\n" },
		"NUL":                     func(d *Contents) { first(d).User = "a\x00" },
		"privilege":               func(d *Contents) { first(d).Privilege = "root" },
		"no privilege":            func(d *Contents) { first(d).Privilege = "" },
		"more behind privilege":   func(d *Contents) { first(d).Privilege = "0 x" },
		"sender's privilege":      func(d *Contents) { d.Blocks[0].Envelopes[0].Sender.Privilege = "-" },
		"endless host":            func(d *Contents) { first(d).Host = strings.Repeat("h", MaxWord) + " " },
		"list of hosts":           func(d *Contents) { first(d).Host = "((a)(b))" },
		"class":                   func(d *Contents) { first(d).Class = -1 },
		"nobody":                  func(d *Contents) { d.Blocks[0].Envelopes[0].Recipients = nil },
		"no group":                func(d *Contents) { d.Blocks = nil },
		"empty line in header":    func(d *Contents) { d.Blocks[0].Header = "A: b\n\nC: d\n" },
		"empty line behind":       func(d *Contents) { d.Blocks[0].Header = "A: b\n\n" },
		"empty line before":       func(d *Contents) { d.Blocks[0].Header = "\nA: b\n" },
		"header of an empty line": func(d *Contents) { d.Blocks[0].Header = "\n" },
		"NUL in header":           func(d *Contents) { d.Blocks[0].Header = "A: \x00\n" },
	} {
		d := someContents()
		spoil(d)
		if text, err := d.Encode(); err == nil {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// Only the e line before the first sender is not written: no reader used it.
func TestEncodeWritesWhatTheRouterWrote(t *testing.T) {
	files, err := filepath.Glob("testdata/router/*/*.ctl")
	if err != nil {
		t.Fatal(err)
	}
	preamble := regexp.MustCompile(`(?m)^e .*\n(x .*\n)*e `)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := contentsOf(mustParse(t, string(text))).Encode()
		if err != nil {
			t.Fatal(err)
		}
		want := preamble.ReplaceAllString(string(text), "${1}e ")
		equal(t, name, string(again), want)
	}
}

// contentsOf returns the Contents that Encode makes this file from.
func contentsOf(f *File) *Contents {
	d := &Contents{
		Name: f.Name, Body: f.Body, MessageID: f.MessageID, Source: f.Source,
		ErrorTo: f.ErrorTo, Obsoletes: f.Obsoletes,
	}
	var group *HeaderBlock
	header, sender := int64(0), -1
	open := func(i int) {
		for ; sender < i; sender++ {
			group.Envelopes = append(group.Envelopes, Envelope{Sender: f.Senders[sender+1].Address})
		}
	}
	for i, r := range f.Recipients {
		if group == nil || r.Header != header {
			d.Blocks = append(d.Blocks, HeaderBlock{Header: f.Headers(i)})
			group, header = &d.Blocks[len(d.Blocks)-1], r.Header
			if r.Sender == sender {
				sender-- // its group is new, so it is said again
			}
		}
		open(r.Sender)
		envelope := &group.Envelopes[len(group.Envelopes)-1]
		envelope.Recipients = append(envelope.Recipients, EnvelopeRecipient{
			Address: r.Address, Class: r.Class, DSN: r.DSN, Ret: r.Ret, EnvID: r.EnvID,
		})
	}
	open(len(f.Senders) - 1)
	return d
}

// expressible reports whether a Contents can hold everything that the file says
// about where the mail goes.
func expressible(f *File) bool {
	if f.Name == "" || f.Body < 0 {
		return false
	}
	ok := func(q Address) bool { return isPrivilege(q.Privilege) && !strings.HasPrefix(q.Host, "(") }
	for _, s := range f.Senders {
		if !ok(s.Address) {
			return false
		}
	}
	for _, r := range f.Recipients {
		if !ok(r.Address) {
			return false
		}
	}
	return true
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/control-files/*.ctl")
	if err != nil {
		f.Fatal(err)
	}
	more, err := filepath.Glob("testdata/router/dirhash0/0*.ctl")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(worked + "d 226:262:-1::1047508710\tcarol\x01failed\x015.1.1\tno such user\nd 10"))
	f.Add([]byte("T example.net 192.0.2.1\n"))
	f.Add([]byte("i 1\no 2\ns a - b 0\nX      1 a ((b)(c d)) \"e f\" 0\nM\n\nm\nA: b\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			checkError(t, data, err.(*ParseError))
			return
		}
		checkOffsets(t, data, file)
		if !expressible(file) {
			return
		}
		text, err := contentsOf(file).Encode()
		if err != nil {
			t.Fatalf("Encode: %v\n%s", err, data)
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		compareMeaning(t, again, file)
	})
}

func checkError(t *testing.T, data []byte, e *ParseError) {
	t.Helper()
	if e.Offset < 0 || e.Offset > int64(len(data)) || len(e.Reason) == 0 || len(e.Reason) > 5000 {
		t.Fatalf("error %+v in %d bytes", e, len(data))
	}
	if e.Offset > 0 && data[e.Offset-1] != '\n' || e.Line != 1+strings.Count(string(data[:e.Offset]), "\n") {
		t.Fatalf("error %+v is not at a line", e)
	}
}

func checkOffsets(t *testing.T, data []byte, f *File) {
	t.Helper()
	starts := func(offset int64, letters string) {
		t.Helper()
		if offset < 0 || offset >= int64(len(data)) || !strings.Contains(letters, string(rune(data[offset]))) ||
			offset > 0 && data[offset-1] != '\n' {
			t.Fatalf("no line %q starts at %d", letters, offset)
		}
	}
	for i, r := range f.Recipients {
		starts(r.Offset, "rX")
		if r.N >= 0 {
			starts(r.N, "N")
		}
		if r.Header >= 0 {
			starts(r.Header-2, "m")
			if text := f.Headers(i); int64(len(text)) != r.HeaderEnd-r.Header || strings.Contains(text, "\n\n") {
				t.Fatalf("headers %q", text)
			}
			if data[r.HeaderEnd] != '\n' {
				t.Fatalf("header ends at %d", r.HeaderEnd)
			}
		}
		if r.Sender < 0 || r.Sender >= len(f.Senders) || f.Find(r.Offset) != i || r.Notify == 0 || len(r.Lock) > pidWidth {
			t.Fatalf("recipient %+v", r)
		}
		f.Open(i)
		f.Done(i)
		if r.PID() < 0 || r.PID() > MaxPID {
			t.Fatalf("pid %d", r.PID())
		}
	}
	for _, s := range f.Senders {
		starts(s.Offset, "s")
	}
	for _, d := range f.Diagnostics {
		starts(d.Offset, "d")
		if d.Recipient < 0 || d.Recipient >= d.Offset || d.Header < -1 || d.Header >= d.Offset || d.N < -1 || d.N >= d.Offset {
			t.Fatalf("diagnostic %+v", d)
		}
	}
	if f.Torn >= 0 {
		starts(f.Torn, "d\x00") // a power cut may have left the first letter as a NUL
	}
}

// compareMeaning compares what both files say, without the offsets.
func compareMeaning(t *testing.T, got, want *File) {
	t.Helper()
	equal(t, "Name", got.Name, want.Name)
	equal(t, "Body", got.Body, want.Body)
	equal(t, "MessageID", got.MessageID, want.MessageID)
	equal(t, "Source", got.Source, want.Source)
	equal(t, "ErrorTo", got.ErrorTo, want.ErrorTo)
	equal(t, "NullSender", got.NullSender, want.NullSender)
	equal(t, "Obsoletes", strings.Join(got.Obsoletes, "\n"), strings.Join(want.Obsoletes, "\n"))
	if len(got.Recipients) != len(want.Recipients) {
		t.Fatalf("%d recipients, want %d", len(got.Recipients), len(want.Recipients))
	}
	for i := range want.Recipients {
		g, w := got.Recipients[i], want.Recipients[i]
		equal(t, "sender", got.Senders[g.Sender].Address, want.Senders[w.Sender].Address)
		equal(t, "headers", got.Headers(i), want.Headers(i))
		equal(t, "recipient", Recipient{Class: g.Class, Address: g.Address, DSN: g.DSN, Notify: g.Notify, Ret: g.Ret, EnvID: g.EnvID},
			Recipient{Class: w.Class, Address: w.Address, DSN: w.DSN, Notify: w.Notify, Ret: w.Ret, EnvID: w.EnvID})
	}
}

// A control file for all recipients of a router's file means the same, although
// its lines may be at other offsets.
func TestExtractOfEveryone(t *testing.T) {
	files, err := filepath.Glob("testdata/router/dirhash0/*.ctl")
	if err != nil || len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := mustParse(t, string(text))
		d := f.Extract(everyone(f))
		d.Name = f.Name
		again, err := d.Encode()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		g := mustParse(t, string(again))
		equal(t, file, sense(g), sense(f))
		if !reflect.DeepEqual(g.Obsoletes, f.Obsoletes) || len(g.Triggers) > 0 {
			t.Errorf("%s: x %q, want %q; T %q", file, g.Obsoletes, f.Obsoletes, g.Triggers)
		}
	}
}

// sense is what a control file means, without its offsets.
func sense(f *File) string {
	var b strings.Builder
	b.WriteString(f.Name + f.MessageID + f.ErrorTo + "\n")
	for i, r := range f.Recipients {
		b.WriteString(f.Senders[r.Sender].String() + " > " + r.Address.String() + "\n" +
			r.DSN + "\n" + r.Ret + "\n" + r.EnvID + "\n" + f.Headers(i) + string(rune('0'+r.Class)) + "\n")
	}
	return b.String()
}

func TestExtractOfSome(t *testing.T) {
	f := mustParse(t, "@ 0x00000007\nv ../public/v_1\ni 7\no 9\nl <m>\nx <old>\nT x.example\n"+
		"e list@x\ns smtp h alice 0 more\nr+          smtp h bob 1\nX-          1 smtp h carol 2 more\nN NOTIFY=NEVER\n"+
		"e list@x\ns smtp h dora\nr           smtp h eve\nR FULL\nn id\nm\nA: 1\n\n"+
		"e list@x\ns smtp h dora 0\nr           smtp h fay 0\nm\nA: 2\n\n")
	d := f.Extract([]int{1, 2})
	d.Name = "8"
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "control file", string(text), "@ 0x00000007\ni 8\no 9\nl <m>\nx <old>\n"+
		"e list@x\ns smtp h alice 0\nX           1 smtp h carol 2\nN NOTIFY=NEVER\n"+
		"e list@x\ns smtp h dora 65534\nr           smtp h eve 65534\nR FULL\nn id\nm\nA: 1\n\n")
}

// everyone lists all recipients of a file.
func everyone(f *File) []int {
	var all []int
	for i := range f.Recipients {
		all = append(all, i)
	}
	return all
}
