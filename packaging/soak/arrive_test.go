package soak

// Mail arrives at its destination: in a Maildir or at an SMTP server.

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"net/mail"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// arrive notes that a message, with LF line ends, was delivered to some addresses.
func (s *site) arrive(text []byte, to []string, d delivery) {
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		s.t.Errorf("what arrived for %s is not a message: %v: %.200q", to, err, text)
		return
	}
	label := m.Header.Get("X-Soak")
	_, body, _ := bytes.Cut(text, []byte("\n\n"))
	if label == "" {
		s.notice(m, body, d)
		return
	}
	var number int
	var sum uint32
	if _, err := fmt.Sscanf(label, "%d %x", &number, &sum); err != nil {
		s.t.Errorf("X-Soak: %s: %v", label, err)
	}
	for _, address := range to {
		s.ledger.update(key{number, address}, "delivered", func(e *entry) {
			e.delivered = append(e.delivered, d)
			e.mismatched = e.mismatched || crc32.ChecksumIEEE(body) != sum
		})
	}
}

// notice notes what a delivery status notification says.
func (s *site) notice(m *mail.Message, body []byte, d delivery) {
	number, address := 0, ""
	actions := map[string]string{}
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch strings.ToLower(name) {
		case "final-recipient":
			_, address, _ = strings.Cut(value, ";")
			address = strings.ToLower(strings.TrimSpace(address))
		case "action":
			actions[address] = value
		case "x-soak":
			_, _ = fmt.Sscanf(value, "%d", &number)
		}
	}
	if number == 0 || len(actions) == 0 {
		s.t.Errorf("what arrived is neither a message of this test nor a notice about one: %v\n%.2000s", m.Header, body)
		return
	}
	// Message-ID is <spoolid.time@host>, with the time in nanoseconds, base 36.
	d.id = m.Header.Get("Message-Id")
	local, _, _ := strings.Cut(d.id, "@")
	written, err := strconv.ParseInt(local[strings.LastIndexByte(local, '.')+1:], 36, 64)
	if err != nil {
		s.t.Errorf("Message-ID %s of a notice: %v", d.id, err)
	}
	d.written = time.Unix(0, written)
	for address, action := range actions {
		s.ledger.update(key{number, address}, "a notice", func(e *entry) {
			if action == "failed" {
				e.failures = append(e.failures, d)
			} else {
				e.successes = append(e.successes, d)
			}
		})
	}
}

// readMaildirs notes and removes what is delivered into Maildirs, until ctx ends, and
// once more after that.
func (s *site) readMaildirs(ctx context.Context) {
	for more := true; more; {
		more = pause(ctx, 100*time.Millisecond)
		for _, user := range s.users {
			s.readMaildir(filepath.Join(s.dir, "mail", user, "new"))
		}
	}
}

func (s *site) readMaildir(dir string) {
	list, _ := os.ReadDir(dir)
	for _, file := range list {
		path := filepath.Join(dir, file.Name())
		text, err := os.ReadFile(path)
		var st syscall.Stat_t
		if err == nil {
			err = syscall.Lstat(path, &st)
		}
		switch {
		case err != nil:
		case *keep:
			err = os.Rename(path, filepath.Join(filepath.Dir(dir), "cur", file.Name()))
		default:
			err = os.Remove(path)
		}
		if err != nil {
			s.t.Errorf("a Maildir: %v", err)
			continue
		}
		to := ""
		if m, err := mail.ReadMessage(bytes.NewReader(text)); err == nil {
			to = strings.ToLower(m.Header.Get("Delivered-To"))
		}
		// The last change of the inode was the rename into new/.
		s.arrive(text, []string{to}, delivery{at: time.Unix(st.Ctim.Unix())})
	}
}
