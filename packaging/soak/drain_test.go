package soak

// The end: the queue drains, and nothing is left over.

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// drainTime is how long the queue may stay as it is. It drains in seconds, but where
// the disk is busy each sync may take seconds too.
const drainTime = 3 * time.Minute

// drain releases all held mail and waits until the queue is empty.
func (s *site) drain(ctx context.Context) {
	s.sink.outage.Store(0)
	s.ledger.loosen(func(key) bool { return true })()
	fewest, changed := 0, time.Now()
	for time.Since(changed) < drainTime {
		for _, file := range s.files("hold/transport") {
			if m, err := s.target("hold/transport", file); err == nil {
				s.runMailq("RELEASE of a message", "release", m.id)
			}
		}
		for _, file := range s.files("hold/orders") {
			record, _ := os.ReadFile(filepath.Join(s.po, "hold/orders", file))
			for line := range strings.Lines(string(record)) {
				if words := strings.Fields(line); len(words) == 3 && words[0] == "thread" {
					s.runMailq("RELEASE of a thread", "release", words[1]+"/"+words[2])
				}
			}
		}
		left := len(s.waiting())
		if left == 0 || !pause(ctx, 100*time.Millisecond) {
			return
		}
		if left < fewest || fewest == 0 {
			fewest, changed = left, time.Now()
		}
	}
	left := s.waiting()
	s.t.Errorf("%d files are still in the queue: %.1000q\n%s", len(left), left, s.scheduler.log.text())
	for i, file := range left {
		if text, err := os.ReadFile(filepath.Join(s.po, file)); err == nil && i < 5 {
			s.t.Logf("%s:\n%.2000s", file, text)
		}
	}
}

// waiting lists the messages that are not done.
func (s *site) waiting() (list []string) {
	for _, dir := range []string{"router", "transport", "hold/transport"} {
		for _, file := range s.files(dir) {
			list = append(list, dir+"/"+file)
		}
	}
	return list
}

// checkFiles looks for files that nobody needs.
func (s *site) checkFiles() {
	left := map[string]int{}
	for _, file := range s.files("") {
		dir, name := filepath.Split(file)
		switch {
		case dir == "" || dir == ".reserve/" || strings.HasPrefix(file, "hold/orders/"):
			// Pid files, the saved state, sockets, the reserve; records of holds stay for an hour.
		case (strings.HasPrefix(dir, "queue/") || strings.HasPrefix(dir, "hold/queue/")) && isMessage(name):
			// The janitor moves them to corrupt/ after a day.
			left["message files without a control file"]++
		case dir == "queue/.tmp/" || dir == "public/" || strings.HasPrefix(dir, "transport/.router/"):
			left["files of interrupted programs in "+dir]++
		default:
			s.t.Errorf("%s is left", file)
		}
	}
	// A killed scheduler leaves at most one half-removed message for each of its workers.
	// Any other killed program leaves at most the file that it was writing.
	for kind, n := range left {
		s.t.Logf("left: %8d %s", n, kind)
	}
	kills := len(s.faults.list()) + s.faults.counts["SIGKILL of sendmail"]
	for kind, n := range left {
		if most := 8 * kills; n > most {
			s.t.Errorf("%d %s, more than %d kills explain", n, kind, kills)
		}
	}
	for _, user := range s.users {
		list, _ := os.ReadDir(filepath.Join(s.dir, "mail", user, "tmp"))
		s.t.Logf("left: %8d files in tmp of the Maildir of %s", len(list), user)
	}
}
