package xfer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/xfer"
)

// origins returns those of the recipients of the source, and the control file of the first
// message.
func (p *pair) origins() (all []ctlfile.Origin, text []byte) {
	p.t.Helper()
	for _, path := range controlFiles(filepath.Join(p.source, "transport"), "") {
		f := p.readControl(filepath.Join(p.source, "transport", path))
		chosen := make([]int, len(f.Recipients))
		for i := range f.Recipients {
			from, err := ctlfile.ParseOrigin(f.Recipients[i].Origin)
			check(p.t, err)
			all, chosen[i] = append(all, from), i
		}
		c := f.Extract(chosen)
		c.Name, c.HostLists = "1", true
		var err error
		text, err = c.Encode()
		check(p.t, err)
	}
	return all, text
}

func (p *pair) taken(origins []ctlfile.Origin) map[string]bool {
	p.t.Helper()
	taken, err := xfer.Taken(context.Background(), xfer.Node{Name: "mx2", Network: "unix", Address: p.socket}, &xfer.Credentials{}, "mx1", origins)
	check(p.t, err)
	return taken
}

// TestNodeSaysWhatItHas: before the mail arrives nothing, then all of it, also after the
// receiver has been started again.
func TestNodeSaysWhatItHas(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.unconfirmed = true
	p.submit(3, false)
	p.submit(1, true)
	origins, _ := p.origins()
	stop, err := p.serve()
	check(t, err)
	if taken := p.taken(origins); len(taken) != 0 {
		t.Errorf("before the move it has %v", taken)
	}
	p.run()
	for range 2 {
		taken := p.taken(origins)
		for _, from := range origins {
			if !taken[from.ID()] {
				t.Errorf("it does not have %s", from.ID())
			}
		}
		stop()
		stop, err = p.serve()
		check(t, err)
	}
	stop()
}

// TestNothingArrivesAfterTheAnswer: a push that is on the wire when the node is asked
// either counts as taken or does not arrive.
func TestNothingArrivesAfterTheAnswer(t *testing.T) {
	for _, half := range []bool{true, false} {
		p := newPair(t, t.TempDir(), t.TempDir())
		p.submit(1, false)
		origins, text := p.origins()
		stop, err := p.serve()
		check(t, err)
		conn, err := net.Dial("unix", p.socket)
		check(t, err)
		in := bufio.NewReaderSize(conn, xfer.MaxLine)
		check(t, xfer.Greet(conn, in, "mx1"))
		body := "Subject: x\n\nbody\n"
		push := xfer.Push{Tag: 1, Control: int64(len(text)), Message: int64(len(body)), ModifiedAt: arrived.UnixNano(), Mode: 0o440}
		send := fmt.Sprintf("%s\n%s%s", push.String(), text, body)
		if half {
			_, err = io.WriteString(conn, send[:len(send)-3])
			check(t, err)
		} else {
			_, err = io.WriteString(conn, send)
			check(t, err)
			_, err = in.ReadString('\n')
			check(t, err)
		}
		if taken := p.taken(origins); len(taken) != 1 == !half {
			t.Errorf("half of it was sent: %v; taken is %v", half, taken)
		}
		_, _ = io.WriteString(conn, send[len(send)-3:]) // perhaps the connection is closed
		_, err = io.Copy(io.Discard, in)
		if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Error("the connection is still open")
		}
		stop()
		if n := len(controlFiles(filepath.Join(p.target, "transport"), "")); n != 1 == !half {
			t.Errorf("half of it was sent: %v; %d messages have arrived", half, n)
		}
	}
}

// TestBothNodesNeedTheSameVersion: the agent defers mail to a node of another version, and
// says what to do; the receiver refuses a node of another version with a temporary reply.
func TestBothNodesNeedTheSameVersion(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(1, false)
	listener, err := net.Listen("unix", p.socket)
	check(t, err)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.WriteString(conn, "220 mx2 xfer 1\n")
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	const want = "has version 1 of the protocol xfer and this node has version 2: mail waits here until both nodes have the same version of these programs"
	if said := p.run(); !strings.Contains(said, "deferall no connection to node mx2: it "+want) {
		t.Errorf("the agent says\n%s", said)
	}
	listener.Close()
	stop, err := p.serve()
	check(t, err)
	defer stop()
	conn, err := net.Dial("unix", p.socket)
	check(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "LHLO mx1\n")
	check(t, err)
	said, _ := io.ReadAll(conn)
	if want := "220 mx2 xfer 2\n451 0 mx1 " + want + "\n"; string(said) != want {
		t.Errorf("the receiver says %q, not %q", said, want)
	}
}
