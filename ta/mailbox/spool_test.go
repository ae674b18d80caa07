package mailbox

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// testSpool is a postoffice and the directories of mailboxes.
type testSpool struct {
	t   *testing.T
	dir string
}

func newTestSpool(t *testing.T) testSpool {
	t.Helper()
	o := testSpool{t, t.TempDir()}
	for _, d := range []string{"transport", "queue", "public", "spool", "home"} {
		o.mkdir(d)
	}
	return o
}

func (o testSpool) path(name string) string { return filepath.Join(o.dir, name) }

func (o testSpool) mkdir(name string) {
	o.t.Helper()
	if err := os.MkdirAll(o.path(name), 0o755); err != nil {
		o.t.Fatal(err)
	}
}

func (o testSpool) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(o.path(name), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

func (o testSpool) read(name string) string {
	o.t.Helper()
	b, err := os.ReadFile(o.path(name))
	if err != nil {
		o.t.Fatal(err)
	}
	return string(b)
}

// names are the files in a directory; none if there is no directory.
func (o testSpool) names(dir string) []string {
	entries, _ := os.ReadDir(o.path(dir))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// noon is when everything happens.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ourUID is who an agent here is told that we are. The real uid may be that of
// nobody, or of root, for both of whom other rules hold.
const ourUID = 4711

// agent makes an agent whose only users are bob and Carol, who are us.
func (o testSpool) agent(options Options) *Agent {
	o.t.Helper()
	if options.Place.Path == "" {
		options.Place.Path = o.path("spool")
	}
	if options.Domain == "" {
		options.Domain = "example.org"
	}
	a, err := New(options)
	if err != nil {
		o.t.Fatal(err)
	}
	users := map[string]*ta.Account{}
	for _, name := range []string{"bob", "Carol"} {
		users[name] = &ta.Account{
			Name: name, Home: o.path("home"), FullName: "The " + name,
			UID: ourUID, GID: ourUID,
		}
	}
	a.ByName = func(name string) (*ta.Account, error) {
		if acc := users[name]; acc != nil {
			return acc, nil
		}
		return nil, ta.ErrNoAccount
	}
	a.ByUID = func(uid int) (*ta.Account, error) {
		for _, name := range []string{"bob", "Carol"} {
			if users[name].UID == uid {
				return users[name], nil
			}
		}
		return nil, ta.ErrNoAccount
	}
	a.Now = func() time.Time { return noon }
	a.host, a.uid = "here", ourUID
	a.helper.env = []string{"GORACE=atexit_sleep_ms=0"}
	return a
}

// testMessage is a message to deliver.
type testMessage struct {
	sender  string // address; "": the null sender
	headers string
	body    string
	rcpts   []string // user word and privilege
	dsn     string   // N line of each
}

func mail(rcpts ...string) testMessage {
	return testMessage{"alice@example.net", "Subject: x\n", "hello\n", rcpts, ""}
}

// deliver has an agent deliver one message, and returns its reports and the
// tags of the recipients.
func (o testSpool) deliver(a *Agent, m testMessage) (said, tags string) {
	o.t.Helper()
	sender := "error <> <> 0"
	if m.sender != "" {
		sender = "smtp mx " + m.sender + " 0"
	}
	control := "@ 0x00000007\ni 7\no 3\nl <m@example.net>\ns " + sender + "\n"
	for _, r := range m.rcpts {
		control += "r           local - " + r + "\n"
		if m.dsn != "" {
			control += "N " + m.dsn + "\n"
		}
	}
	o.write("transport/7", control+"m\n"+m.headers+"\n")
	o.write("queue/7", "x\n\n"+m.body)
	var out, log bytes.Buffer
	s := &ta.Server{
		Name: "mailbox", Channel: "local", Dir: o.path("transport"),
		In: strings.NewReader("7\n"), Out: &out, Err: &log, Deliver: a.Deliver,
	}
	if err := s.Serve(context.Background()); err != nil || log.Len() > 0 {
		o.t.Errorf("serve: %v, %s", err, &log)
	}
	f, err := ctlfile.Parse([]byte(o.read("transport/7")))
	if err != nil {
		o.t.Fatal(err)
	}
	for _, r := range f.Recipients {
		tags += string(rune(r.Tag))
	}
	return strings.ReplaceAll(out.String(), "#hungry\n", ""), tags
}

// delivered fails the test unless the agent delivers.
func (o testSpool) delivered(a *Agent, m testMessage) {
	o.t.Helper()
	if said, tags := o.deliver(a, m); tags != strings.Repeat("+", len(m.rcpts)) {
		o.t.Fatalf("not delivered: %s", said)
	}
}

// refused fails the test unless the agent gives this status and something that
// matches the pattern to one recipient.
func (o testSpool) refused(a *Agent, m testMessage, status, pattern string) {
	o.t.Helper()
	said, tags := o.deliver(a, m)
	if !strings.Contains(said, "\t"+status+" ") || tags != map[string]string{"deferred": " ", "error2": "-"}[status] {
		o.t.Errorf("%v: %q, tags %q; want %s", m.rcpts, said, tags, status)
	}
	// A failure's notary is in the control file.
	if text := said + o.read("transport/7"); !regexp.MustCompile(pattern).MatchString(text) {
		o.t.Errorf("%v: %q does not match %q", m.rcpts, text, pattern)
	}
}

// us is our privilege as a recipient line has it.
const us = "4711"

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
