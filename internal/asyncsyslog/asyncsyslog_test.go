package asyncsyslog

import (
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// listen makes the socket of a syslogd.
func listen(t *testing.T) (net.PacketConn, Options) {
	t.Helper()
	address := filepath.Join(t.TempDir(), "log")
	conn, err := net.ListenPacket("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, Options{Tag: "scheduler", Network: "unixgram", Address: address}
}

func TestLinesHaveFacilityMail(t *testing.T) {
	conn, options := listen(t)
	w := Open(options)
	w.Info("S258367AbTCLWiT: complete (total 2 recipients, 1 failed)")
	w.Error("the spool is full")
	w.Close()
	// Facility mail is 2: 2*8+6 for info, 2*8+3 for err.
	for _, want := range []string{
		`^<22>.* scheduler\[\d+\]: S258367AbTCLWiT: complete \(total 2 recipients, 1 failed\)\n$`,
		`^<19>.* scheduler\[\d+\]: the spool is full\n$`,
	} {
		b := make([]byte, 1000)
		n, _, err := conn.ReadFrom(b)
		if err != nil || !regexp.MustCompile(want).Match(b[:n]) {
			t.Errorf("got %q (%v), want %s", b[:n], err, want)
		}
	}
}

func TestTheFirstErrorIsReportedOnce(t *testing.T) {
	var failed atomic.Int32
	w := Open(Options{Network: "unixgram", Address: filepath.Join(t.TempDir(), "none"), Failed: func(error) { failed.Add(1) }})
	for range 10 {
		w.Info("complete")
	}
	w.Close()
	if n := failed.Load(); n != 1 {
		t.Errorf("reported %d times", n)
	}
}

// The socket of a syslogd that reads nothing takes a few lines and then blocks.
func TestAStuckSyslogdDelaysNobody(t *testing.T) {
	_, options := listen(t)
	options.CloseTimeout = time.Millisecond
	w := Open(options)
	line := strings.Repeat("x", 1000)
	for range 2 * queueLength {
		w.Info(line)
	}
	w.Close()
}

func TestLostLinesAreCounted(t *testing.T) {
	conn, options := listen(t)
	// No goroutine takes lines yet, so that it is certain which are lost.
	w := &Writer{options: options, lines: make(chan line, 1), done: make(chan struct{})}
	for range 3 {
		w.Info("complete")
	}
	go w.run()
	close(w.lines)
	<-w.done
	for _, want := range []string{"2 lines were lost here", "complete"} {
		b := make([]byte, 1000)
		n, _, err := conn.ReadFrom(b)
		if err != nil || !strings.Contains(string(b[:n]), want) {
			t.Errorf("got %q (%v), want %s", b[:n], err, want)
		}
	}
}

func TestANilWriterDropsLines(t *testing.T) {
	var w *Writer
	w.Info("complete")
	w.Close()
}
