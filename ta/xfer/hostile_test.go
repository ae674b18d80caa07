package xfer

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"zsched/xfer"
)

// TestEndlessLineOfANodeIsNotRead: a node cannot make the agent use more memory than a
// line of the protocol needs.
func TestEndlessLineOfANodeIsNotRead(t *testing.T) {
	for what, lines := range map[string][]string{
		"greeting": {"220 mx2 "}, "LHLO": {"220 mx2 xfer 2\n", "250 "}, "reply": {"220 mx2 xfer 2\n", "250 mx2\n", "451 1 "},
	} {
		p := newPair(t, t.TempDir(), t.TempDir())
		p.submit(1, false)
		listener, err := net.Listen("unix", p.socket)
		check(t, err)
		sent := make(chan int)
		go func() { sent <- answerWithoutEnd(listener, lines) }()
		said := p.run()
		listener.Close()
		if n := <-sent; n > 8<<20 {
			t.Errorf("%s: the agent has read up to %d bytes of a line", what, n)
		}
		if want := fmt.Sprintf("it sends a line of more than %d bytes", xfer.MaxLine); !strings.Contains(said, want) {
			t.Errorf("%s: the agent says\n%.2000s", what, said)
		}
	}
}

// answerWithoutEnd sends each line when the agent has sent one. The last line does not end
// before 100 MB. It returns how much of it could be sent.
func answerWithoutEnd(listener net.Listener, lines []string) (sent int) {
	conn, err := listener.Accept()
	if err != nil {
		return 0
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i, line := range lines {
		if i > 0 {
			_, _ = in.ReadString('\n')
		}
		_, _ = conn.Write([]byte(line))
	}
	for chunk := bytes.Repeat([]byte("x"), 1<<20); sent < 100<<20; {
		n, err := conn.Write(chunk)
		sent += n
		if err != nil {
			break
		}
	}
	return sent
}
