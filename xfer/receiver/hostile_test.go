package receiver

// What a node that may push, but is hostile, cannot do.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/xfer"
)

// target is a node with a receiver, of which the nodes n2 and n3 may push.
type target struct {
	t              *testing.T
	office, socket string
	store          *Store
	table          []xfer.Node
	receiver       *Receiver
}

func newTarget(t *testing.T, o Options) *target {
	t.Helper()
	dir := t.TempDir()
	n := &target{t: t, office: filepath.Join(dir, "po"), socket: filepath.Join(dir, "socket"), table: []xfer.Node{{Name: "n2"}, {Name: "n3"}}}
	for _, name := range []string{"transport", "queue"} {
		check(t, os.MkdirAll(filepath.Join(n.office, name), 0o755))
	}
	o.Postoffice = n.office
	if o.Channels == nil {
		o.Channels = []string{"smtp", "local"}
	}
	var err error
	n.store, err = OpenStore(o)
	check(t, err)
	r := New(n.store)
	n.receiver = r
	r.Node, r.Log = "n1", func(string, error) {}
	r.Nodes = func() ([]xfer.Node, error) { return n.table, nil }
	listener, err := net.Listen("unix", n.socket)
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var committer, sessions sync.WaitGroup
	committing, stopCommitting := context.WithCancel(context.Background())
	committer.Go(func() { r.Run(committing) })
	sessions.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() { r.Serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		stop()
		sessions.Wait()
		stopCommitting()
		committer.Wait()
		n.store.Close()
	})
	return n
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// peerConn is a connection of a node.
type peerConn struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (n *target) connect(name string) *peerConn {
	n.t.Helper()
	conn, err := net.Dial("unix", n.socket)
	check(n.t, err)
	n.t.Cleanup(func() { conn.Close() })
	p := &peerConn{conn, n.t, bufio.NewReaderSize(conn, xfer.MaxLine)}
	check(n.t, xfer.Greet(conn, p.in, name))
	return p
}

// ask sends something and returns the line that comes back.
func (p *peerConn) ask(format string, args ...any) string {
	p.t.Helper()
	_, err := fmt.Fprintf(p, format, args...)
	check(p.t, err)
	_ = p.SetReadDeadline(time.Now().Add(time.Minute))
	line, err := xfer.ReadLine(p.in)
	check(p.t, err)
	return line
}

const pushedBody = "Subject: x\n\nbody\n"

// push pushes a message with a control file and returns the reply.
func (p *peerConn) push(control string) string {
	p.t.Helper()
	push := xfer.Push{Tag: 1, Control: int64(len(control)), Message: int64(len(pushedBody)), ModifiedAt: 1, Owner: 12345, Mode: 0o666}
	return p.ask("%s\n%s%s", push.String(), control, pushedBody)
}

// quit ends the connection and waits until the receiver has done all that it was told.
func (p *peerConn) quit() {
	p.t.Helper()
	_, err := io.WriteString(p, "QUIT\n")
	check(p.t, err)
	_, err = io.Copy(io.Discard, p.in)
	check(p.t, err)
}

// queued returns the files below transport/ or queue/ of messages in the queue.
func (n *target) queued(dir string) (paths []string) {
	n.t.Helper()
	check(n.t, filepath.WalkDir(filepath.Join(n.office, dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == stagedDir {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

// control returns a control file with lines before its sender.
func control(lines, user, origin string) string {
	return "i 1\no 12\nl <m@x>\n" + lines + "e err@x.example\ns local - a@x.example 0\n" +
		"r           xfer n1 " + user + " 0\nN NOTIFY=FAILURE\nR HDRS\nn env\nO " + origin + " 3 0 queue local -\nm\nSubject: x\n\n"
}

// TestControlFileOfAnotherNodeHasNoEffectHere: only the lines that describe mail come into
// the queue, also from nodes that may run programs here.
func TestControlFileOfAnotherNodeHasNoEffectHere(t *testing.T) {
	for _, programs := range []bool{false, true} {
		n := newTarget(t, Options{Programs: programs})
		profile := filepath.Join(n.office, "profile.sh")
		lines := "v " + profile + "\nx <other@x>\nx <third@x>\nT host.example\nb text\nz text\nM\nx <in-a-block@x>\n\n"
		pushed := control(lines, `zrvb+'$(id>/x)'@vm`, "n2/S1A/42") + "d 0:-1:-1::1047508710\tnotary\ttext\n"
		if said := n.connect("n2").push(pushed); said != "250 1 ok" {
			t.Fatalf("the reply is %q", said)
		}
		paths := n.queued("transport")
		if len(paths) != 1 {
			t.Fatalf("the queue has %q", paths)
		}
		text, err := os.ReadFile(paths[0])
		check(t, err)
		privilege := ctlfile.Nobody
		if programs {
			privilege = "0"
		}
		want := "@ 0x00000007\ni " + filepath.Base(paths[0]) + "\no 12\nl <m@x>\ne err@x.example\ns local - a@x.example " + privilege + "\n" +
			`r           local - zrvb+'$(id>/x)'@vm ` + privilege + "\nN NOTIFY=FAILURE\nR HDRS\nn env\nO n2/S1A/42 3\nm\nSubject: x\n\n"
		if string(text) != want {
			t.Errorf("programs: %v; the control file is\n%s\nnot\n%s", programs, text, want)
		}
	}
}

// TestOwnerOfAMessageIsNotThePeersChoice: a file of another user would give that user
// rights here, or give the peer the user's rights.
func TestOwnerOfAMessageIsNotThePeersChoice(t *testing.T) {
	n := newTarget(t, Options{})
	if said := n.connect("n2").push(control("", "bob", "n2/S1A/42")); said != "250 1 ok" {
		t.Fatalf("the reply is %q", said)
	}
	var st syscall.Stat_t
	check(t, syscall.Lstat(n.queued("queue")[0], &st))
	if int(st.Uid) != os.Geteuid() || st.Mode&0o7777 != 0o440 {
		t.Errorf("it belongs to user %d and has mode %#o", st.Uid, st.Mode)
	}
}

// TestMailOfAnotherNodeDoesNotArriveInTheFuture: it would not expire.
func TestMailOfAnotherNodeDoesNotArriveInTheFuture(t *testing.T) {
	n := newTarget(t, Options{})
	text := control("", "bob", "n2/S1A/42")
	push := xfer.Push{Tag: 1, Control: int64(len(text)), Message: int64(len(pushedBody)), ModifiedAt: 1<<63 - 1}
	if said := n.connect("n2").ask("%s\n%s%s", push.String(), text, pushedBody); said != "250 1 ok" {
		t.Fatalf("the reply is %q", said)
	}
	info, err := os.Lstat(n.queued("queue")[0])
	check(t, err)
	if info.ModTime().After(time.Now()) {
		t.Errorf("it arrives at %v", info.ModTime())
	}
}

// TestOriginsAreThoseOfTheNodeThatPushes: a node that claims the origin of another node's
// mail would make this one drop that mail when it is pushed, and take it twice after a
// DONE.
func TestOriginsAreThoseOfTheNodeThatPushes(t *testing.T) {
	const mayNot = `the origin is of node "n3", and in the table of nodes here, n2 neither is that node nor takes over its postoffice`
	n := newTarget(t, Options{})
	n2, n3 := n.connect("n2"), n.connect("N3")
	for _, origin := range []string{"n3/S9A/109", "n2/n3/S9A/109", "n3/n2/S9A/109", "n22/S9A/109"} {
		if said := n2.push(control("", "junk", origin)); !strings.HasPrefix(said, "550 1 ") || !strings.Contains(said, "the origin is of node") {
			t.Errorf("origin %s: the reply is %q", origin, said)
		}
	}
	if said := n2.push(control("", "junk", "n2/"+strings.Repeat("S", maxOrigin)+"/109")); !strings.HasPrefix(said, "550 1 ") {
		t.Errorf("a long origin: the reply is %.200q", said)
	}
	if said := n3.push(control("", "bob", "n3/S9A/109")); said != "250 1 ok" || len(n.queued("transport")) != 1 {
		t.Fatalf("the node's own push: the reply is %q, the queue has %q", said, n.queued("transport"))
	}
	if said := n2.ask("HAVE 7 n3/S9A 109\n"); said != "550 7 "+mayNot {
		t.Errorf("the reply to HAVE is %q", said)
	}
	_, err := io.WriteString(n2, "DONE n3/S9A 109\n")
	check(t, err)
	n2.quit()
	if said := n3.push(control("", "bob", "n3/S9A/109")); said != "250 1 ok" || len(n.queued("transport")) != 1 {
		t.Errorf("the node's push again: the reply is %q, the queue has %q", said, n.queued("transport"))
	}
	if said := n.connect("n3").ask("HAVE 8 n3/S9A 109\n"); said != "250 8 taken=109 " {
		t.Errorf("the reply to the node's own HAVE is %q", said)
	}
}

// TestNodeThatTakesOverAPostofficePushesItsMail: what is on its way has the origins of the
// node whose postoffice it was.
func TestNodeThatTakesOverAPostofficePushesItsMail(t *testing.T) {
	nodes := filepath.Join(t.TempDir(), "nodes")
	check(t, os.WriteFile(nodes, []byte("n2 UNIX:/nowhere N3 n4\nn3 UNIX:/nowhere\n"), 0o600))
	n := newTarget(t, Options{})
	var err error
	n.table, err = xfer.ReadNodes(nodes)
	check(t, err)
	for _, node := range []string{"n3", "n4", "n2"} {
		if said := n.connect("n2").push(control("", "bob", node+"/S9A/109")); said != "250 1 ok" {
			t.Errorf("mail of %s: the reply is %q", node, said)
		}
	}
	if said := n.connect("n3").push(control("", "bob", "n2/S9A/109")); !strings.HasPrefix(said, "550 1 ") {
		t.Errorf("the other way round: the reply is %q", said)
	}
}
