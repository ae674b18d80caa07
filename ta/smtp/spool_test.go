package smtp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/ta"
	"zsched/ta/smtp/smtptest"
)

// names is a DNS in memory: "mx a.example" is "10 mx1.example, 20 mx2.example", and
// "a mx1.example" is "192.0.2.1, 2001:db8::1". "?" means no answer.
type names map[string]string

func (n names) MX(_ context.Context, domain string) ([]MX, error) {
	var list []MX
	text, ok := n["mx "+domain]
	switch {
	case !ok:
		return nil, ErrNotFound
	case text == "?":
		return nil, fmt.Errorf("no answer")
	}
	for one := range strings.SplitSeq(text, ", ") {
		var mx MX
		if _, err := fmt.Sscan(one, &mx.Preference, &mx.Host); err != nil {
			panic(err)
		}
		mx.Host = strings.TrimSuffix(mx.Host, ".")
		list = append(list, mx)
	}
	return list, nil
}

func (n names) Addresses(_ context.Context, host string) ([]netip.Addr, error) {
	text, ok := n["a "+host]
	switch {
	case !ok:
		return nil, ErrNotFound
	case text == "?":
		return nil, fmt.Errorf("no answer")
	}
	var list []netip.Addr
	for one := range strings.SplitSeq(text, ", ") {
		list = append(list, netip.MustParseAddr(one))
	}
	return list, nil
}

// one is a DNS in which a.example is the peer's machine.
var one = names{"mx a.example": "10 mx.a.example", "a mx.a.example": "127.0.0.1"}

// start starts a peer.
func start(t testing.TB, o smtptest.Options) *smtptest.Peer {
	t.Helper()
	p, err := smtptest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// options are those of an agent that talks to a peer.
func options(p *smtptest.Peer) Options {
	o := Options{Name: "mta.example", Limits: DefaultLimits(), Timeouts: DefaultTimeouts(), Resolver: one,
		Rand: rand.New(rand.NewPCG(1, 2))}
	if strings.Contains(p.Addr, "/") {
		o.Forced = "UNIX:" + p.Addr
	} else {
		o.Port = int(netip.MustParseAddrPort(p.Addr).Port())
	}
	return o
}

// testSpool is a postoffice with messages.
type testSpool struct {
	testing.TB
	dir  string
	born time.Time
}

func newTestSpool(t testing.TB) *testSpool {
	t.Helper()
	o := &testSpool{t, t.TempDir(), time.Now().Add(-time.Minute)}
	for _, d := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(o.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// message writes a message: the lines of its recipients, its header and its body.
func (o *testSpool) message(number int, lines, header, body string) {
	o.Helper()
	if !strings.Contains("\n"+lines, "\ns ") {
		lines = "s smtp mx.example.org alice@sender.example 0\n" + lines
	}
	o.put("transport", number, fmt.Sprintf("@ 0x00000007\ni %d\no 24\nl <m@example.org>\n%sm\n%s\n", number, lines, header))
	o.put("queue", number, "external\nenv-end\nA: b\n\n\n"+body)
	if err := os.Chtimes(filepath.Join(o.dir, "queue", fmt.Sprint(number)), o.born, o.born); err != nil {
		o.Fatal(err)
	}
}

func (o *testSpool) put(folder string, number int, text string) {
	o.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, folder, fmt.Sprint(number)), []byte(text), 0o644); err != nil {
		o.Fatal(err)
	}
}

func (o *testSpool) control(number int) string {
	o.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, "transport", fmt.Sprint(number)))
	if err != nil {
		o.Fatal(err)
	}
	return string(text)
}

// to returns the lines of recipients at a.example.
func to(users ...string) string {
	var b strings.Builder
	for _, u := range users {
		b.WriteString("r           smtp a.example " + u + " 0\n")
	}
	return b.String()
}

const header = "From: alice@sender.example\nSubject: hello\n"

// server is the loop of an agent that works in the postoffice.
func (o *testSpool) server(a *Agent, out io.Writer) *ta.Server {
	return &ta.Server{Name: "smtp", Channel: "smtp", Dir: filepath.Join(o.dir, "transport"), Out: out, Err: os.Stderr, Deliver: a.Deliver}
}

// feed gives job lines to an agent and returns its reports. A job line without TAB is
// for a.example.
func (o *testSpool) feed(a *Agent, jobs ...string) string {
	o.Helper()
	var out bytes.Buffer
	s := o.server(a, &out)
	var in strings.Builder
	for _, j := range jobs {
		if !strings.Contains(j, "\t") {
			j += "\ta.example"
		}
		in.WriteString(j + "\n")
	}
	s.In = strings.NewReader(in.String())
	if err := s.Serve(context.Background()); err != nil {
		o.Error(err)
	}
	return strings.ReplaceAll(out.String(), "#hungry\n", "")
}

// once feeds message 1 to a new agent and closes it.
func (o *testSpool) once(opts Options) string {
	o.Helper()
	a := New(opts)
	defer a.Close()
	return o.feed(a, "1")
}

// brief shortens reports: the local part of the recipient in place of its offset, of
// the fields the code, and of the text the last line.
func (o *testSpool) brief(said string) string {
	var b strings.Builder
	for line := range strings.Lines(said) {
		columns := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(columns) < 3 {
			b.WriteString(line)
			continue
		}
		word, text, _ := strings.Cut(columns[2], " ")
		b.WriteString(o.user(columns[0]) + " " + word)
		if fields := strings.Split(columns[1], "\x01"); len(fields) > 2 {
			b.WriteString(" " + fields[2])
		}
		b.WriteString(" " + text[strings.LastIndexByte(text, '\r')+1:] + "\n")
	}
	return b.String()
}

// user is the local part of a recipient at "number/offset".
func (o *testSpool) user(at string) string {
	var number, offset int
	if _, err := fmt.Sscanf(at, "%d/%d", &number, &offset); err != nil {
		o.Fatal(err)
	}
	user, _, _ := strings.Cut(strings.Fields(o.control(number)[offset+12:])[2], "@")
	return user
}

// diagnostics are the d lines of a control file: status code and diagnostic.
func (o *testSpool) diagnostics(number int) string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^d .*?\t(.*?)\t`).FindAllStringSubmatch(o.control(number), -1) {
		fields := strings.Split(m[1], "\x01")
		all = append(all, fields[0]+" "+fields[1]+" "+fields[2]+" "+fields[3])
	}
	return strings.Join(all, "\n")
}

// commands returns the commands that a peer got, without those that begin with some
// texts.
func commands(p *smtptest.Peer, but ...string) string {
	var all []string
	for _, c := range p.Commands() {
		skip := false
		for _, b := range but {
			skip = skip || strings.HasPrefix(c, b)
		}
		if !skip {
			all = append(all, c)
		}
	}
	return strings.Join(all, "\n")
}
