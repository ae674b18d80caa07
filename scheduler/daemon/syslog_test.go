package daemon

import (
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"zsched/scheduler"
)

func TestSyslogLinesHaveFacilityMail(t *testing.T) {
	address := filepath.Join(t.TempDir(), "log")
	listener, err := net.ListenPacket("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := openSyslog("unixgram", address, zerolog.Nop())
	s.Line(scheduler.Info, "S258367AbTCLWiT: complete (total 2 recipients, 1 failed)")
	s.Line(scheduler.Error, "put aside")
	s.Close()
	// Facility mail is 2: 2*8+6 for info, 2*8+3 for err.
	for _, want := range []string{
		`^<22>.* scheduler\[\d+\]: S258367AbTCLWiT: complete \(total 2 recipients, 1 failed\)\n$`,
		`^<19>.* scheduler\[\d+\]: put aside\n$`,
	} {
		b := make([]byte, 1000)
		n, _, err := listener.ReadFrom(b)
		if err != nil || !regexp.MustCompile(want).Match(b[:n]) {
			t.Errorf("got %q (%v), want %s", b[:n], err, want)
		}
	}
}

// That there is no syslogd is said once and hinders nothing.
func TestSyslogThatIsNotThere(t *testing.T) {
	log := new(buffer)
	s := openSyslog("unixgram", filepath.Join(t.TempDir(), "none"), zerolog.New(log))
	for range 10 {
		s.Line(scheduler.Info, "complete")
	}
	s.Close()
	if n := strings.Count(log.String(), "syslog cannot be reached"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// A syslogd that has stopped does not keep the scheduler from leaving: its
// socket takes some datagrams, and then waits.
func TestSyslogThatIsStuckIsLeft(t *testing.T) {
	address := filepath.Join(t.TempDir(), "log")
	listener, err := net.ListenPacket("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := openSyslog("unixgram", address, zerolog.Nop())
	for range cap(s.lines) {
		s.Line(scheduler.Info, "complete")
	}
	s.Close()
}
