package xfer

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
	"zsched/ta"
	"zsched/xfer"
	"zsched/xfer/receiver"
)

// pair: two nodes on disks in memory, and the mail that moves from one to the other.

// pair is two nodes: mail is moved from the source to the target.
type pair struct {
	t              testing.TB
	source, target string // postoffices
	socket, nodes  string
	users          []string // of the recipients
	usersAre       []string // the names that submit uses, if any
	node           string   // of the source; "": mx1
	credentials    xfer.Credentials
	channel, host  string // of the recipients before the move; "": smtp
	privilege      string // of the recipients; "": 65534
}

func newPair(t testing.TB, source, target string) *pair {
	t.Helper()
	dir := t.TempDir()
	p := &pair{t: t, source: source, target: target, socket: filepath.Join(dir, "socket"), nodes: filepath.Join(dir, "nodes")}
	check(t, os.WriteFile(p.nodes, []byte("mx1 UNIX:/nowhere\nmx2 UNIX:"+p.socket+"\n"), 0o600))
	for _, office := range []string{source, target} {
		for _, name := range []string{"transport", "queue"} {
			check(t, postoffice.MakeDir(postoffice.WorkingDir, filepath.Join(office, name), 0o755))
		}
	}
	return p
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// arrived is when all messages arrived first.
var arrived = time.Unix(1_700_000_000, 123_456_789)

// submit puts a message into the source's queue as an order to move does, with so many
// recipients.
func (p *pair) submit(n int) {
	p.t.Helper()
	var to []ctlfile.EnvelopeRecipient
	for i := range n {
		user := fmt.Sprintf("user%d", len(p.users))
		if p.usersAre != nil {
			user = p.usersAre[i]
		}
		p.users = append(p.users, user)
		id := fmt.Sprintf("S%dXMVQKNOA", 1000+len(p.users)-i)
		from := ctlfile.Origin{
			Node: "mx1", SpoolID: id, Offset: int64(100 + i), Attempts: 3,
			Channel: cmp.Or(p.channel, "smtp"), Host: cmp.Or(p.host, "((a.example)(b.example c.example))"),
		}
		to = append(to, ctlfile.EnvelopeRecipient{
			Address: ctlfile.Address{Channel: "xfer", Host: "mx2", User: user, Privilege: cmp.Or(p.privilege, "65534")},
			Delays:  1, DSN: "NOTIFY=SUCCESS,FAILURE", Origin: from.String(),
		})
	}
	body := "Subject: x\n\n" + strings.Repeat("text\n", 300) + p.users[len(p.users)-1] + "\n"
	c := ctlfile.Contents{Body: 12, Blocks: []ctlfile.HeaderBlock{{
		Header:    "Subject: x\n",
		Envelopes: []ctlfile.Envelope{{Sender: ctlfile.Address{Channel: "smtp", Host: "-", User: "a@example", Privilege: "0"}, Recipients: to}},
	}}}
	file, err := postoffice.CreateTemp(p.source, "submit-")
	check(p.t, err)
	_, err = file.Write([]byte(body))
	check(p.t, err)
	check(p.t, file.SetTime(arrived))
	check(p.t, file.Sync())
	check(p.t, file.Close())
	committer, err := queue.OpenCopies(p.source, 1)
	check(p.t, err)
	defer committer.Close()
	item := queue.Item{Contents: &c, Message: file.Name()}
	committer.Commit([]*queue.Item{&item})
	check(p.t, item.Err)
}

// serve runs the receiver of the target on its UNIX socket until stop is called.
func (p *pair) serve() (stop func(), err error) {
	return p.serveOn(func() net.Listener {
		_ = os.Remove(p.socket)
		listener, err := net.Listen("unix", p.socket)
		check(p.t, err)
		return listener
	}, xfer.Credentials{})
}

// serveOn runs the receiver of the target, with its credentials, on a listener.
func (p *pair) serveOn(listen func() net.Listener, c xfer.Credentials) (stop func(), err error) {
	store, err := receiver.OpenStore(p.target, 1, "", nil)
	if err != nil {
		return nil, err
	}
	r := receiver.New(&receiver.Receiver{
		Node: "mx2", Store: store, Credentials: c, Log: func(string, error) {},
		Nodes: func() ([]xfer.Node, error) { return xfer.ReadNodes(p.nodes) },
	})
	listener := listen()
	committing, stopCommitting := context.WithCancel(context.Background())
	serving, stopServing := context.WithCancel(context.Background())
	var committer, sessions sync.WaitGroup
	committer.Go(func() { r.Run(committing) })
	sessions.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() { r.Serve(serving, conn) })
		}
	})
	return func() {
		listener.Close()
		stopServing()
		sessions.Wait()
		stopCommitting()
		committer.Wait()
		store.Close()
	}, nil
}

// controlFiles are the paths of the control files in a directory of a postoffice,
// below it.
func controlFiles(dir, prefix string) (paths []string) {
	names, _ := postoffice.ReadNames(filepath.Join(dir, prefix))
	for _, name := range names {
		switch _, isNumber := ctlfile.Number(name); {
		case isNumber:
			paths = append(paths, prefix+name)
		case len(name) == 1 && name >= "A" && name <= "Z":
			paths = append(paths, controlFiles(dir, prefix+name+"/")...)
		}
	}
	return paths
}

// readControl parses a control file; nil if there is none.
func (p *pair) readControl(path string) *ctlfile.File {
	p.t.Helper()
	text, err := postoffice.ReadFile(postoffice.WorkingDir, path, 1<<20)
	if err != nil {
		return nil
	}
	f, err := ctlfile.Parse(text)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", path, err, text)
	}
	return f
}

// run runs the agent over all mail of the source once, with several sessions.
func (p *pair) run() string { return p.runSessions(4) }

func (p *pair) runSessions(sessions int) string {
	transport := filepath.Join(p.source, "transport")
	var jobs strings.Builder
	for _, path := range controlFiles(transport, "") {
		jobs.WriteString(path + "\tmx2\n")
	}
	agent := New(&Agent{
		Node: cmp.Or(p.node, "mx1"), Credentials: p.credentials, Nodes: func() ([]xfer.Node, error) { return xfer.ReadNodes(p.nodes) },
		ReplyTimeout: time.Minute,
	})
	defer agent.Close()
	var out bytes.Buffer
	s := &ta.Server{Name: "xfer", Channel: "xfer", Dir: transport, Sessions: sessions, In: strings.NewReader(jobs.String()), Out: &out,
		Deliver: agent.Deliver, Marking: ta.AgentMarks}
	if err := s.Serve(context.Background()); err != nil {
		p.t.Error(err)
	}
	return out.String()
}

// repair does what the scheduler does for control files of a dead agent, and returns how
// many recipients are still open. It removes finished messages.
func (p *pair) repair() (open int) {
	p.t.Helper()
	transport := filepath.Join(p.source, "transport")
	for _, path := range controlFiles(transport, "") {
		full := filepath.Join(transport, path)
		f := p.readControl(full)
		if f == nil {
			continue
		}
		fd, err := postoffice.OpenAt(postoffice.WorkingDir, full, os.O_RDWR, 0)
		check(p.t, err)
		left := 0
		for i := range f.Recipients {
			r := &f.Recipients[i]
			if r.Tag == ctlfile.Locked {
				_, err := ctlfile.Swap(fd, r.Offset, r.Tag, ctlfile.Open, 0)
				check(p.t, err)
			}
			if r.Tag == ctlfile.Locked || r.Tag == ctlfile.Open {
				left++
			}
		}
		check(p.t, postoffice.Close(fd))
		open += left
		if left == 0 {
			check(p.t, postoffice.RemovePath(full))
			check(p.t, postoffice.RemovePath(filepath.Join(p.source, "queue", path)))
		}
	}
	return open
}

// copies counts where each recipient is at the target.
func (p *pair) copies() map[string]int {
	p.t.Helper()
	copies := map[string]int{}
	dir := filepath.Join(p.target, "transport")
	for _, path := range controlFiles(dir, "") {
		f := p.readControl(filepath.Join(dir, path))
		info, err := postoffice.Lstat(filepath.Join(p.target, "queue", path))
		if f == nil || err != nil {
			p.t.Fatalf("%s: no message file: %v", path, err)
		}
		if before := arrived.Sub(info.ModTime()); before <= 0 || before > 2*time.Second { // two copies were made
			p.t.Errorf("%s arrived at %v", path, info.ModTime())
		}
		for i := range f.Recipients {
			r := &f.Recipients[i]
			copies[r.User]++
			from, err := ctlfile.ParseOrigin(r.Origin)
			if r.Tag != ctlfile.Open {
				p.t.Errorf("%s has the tag %q", r.User, r.Tag)
			}
			if err != nil || from.Attempts != 3 || from.Channel != "" || r.Channel != "smtp" || r.Host != "((a.example)(b.example c.example))" || r.Delays != 1 || r.DSN == "" {
				p.t.Errorf("%s has become %+v, origin %+v, %v", r.User, r, from, err)
			}
		}
	}
	return copies
}
