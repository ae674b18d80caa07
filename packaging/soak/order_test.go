package soak

// Random orders, given with mailq.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"zsched/ctlfile"
)

// target is a message that an order is about.
type target struct {
	id      string
	number  int   // in the ledger
	keys    []key // its recipients
	expires bool  // one of them is to expire
	local   bool
}

// order gives orders until ctx ends.
func (s *site) order(ctx context.Context) {
	for pause(ctx, 150*time.Millisecond) {
		switch rand.IntN(12) {
		case 0:
			s.loosenThread("HOLD of a thread", "hold", "--for", "3s")
		case 1:
			s.loosenThread("RELEASE of a thread", "release")
		case 2:
			s.runMailq("RETRY of a thread", "retry", s.thread())
		case 3:
			s.runMailq("ETRN", "etrn", "[127.0.0.2]")
		case 4:
			s.runMailq("query", []string{"threads", "reasons", "held", "shape"}[rand.IntN(4)], "--json")
		default:
			s.orderMessage()
		}
	}
}

func (s *site) thread() string {
	thread, _ := s.anyThread()
	return thread
}

// anyThread returns a thread, and how the addresses of its recipients end.
func (s *site) anyThread() (thread, domain string) {
	domains := map[string]string{
		"smtp/[127.0.0.2]": takes, "smtp/[127.0.0.3]": unmarked, "smtp/[127.0.0.4]": slow, "local/" + s.user: here,
	}
	threads := slices.Sorted(maps.Keys(domains))
	thread = threads[rand.IntN(len(threads))]
	return thread, domains[thread]
}

// loosenThread gives an order that may let held mail of a thread go, now or later.
func (s *site) loosenThread(what, verb string, more ...string) {
	thread, domain := s.anyThread()
	defer s.ledger.loosen(func(k key) bool { return strings.HasSuffix(k.address, domain) })()
	s.runMailq(what, append([]string{verb, thread}, more...)...)
}

// runMailq gives an order with mailq, and reports whether the scheduler accepted it. The
// scheduler does not if it has no such message or was killed.
func (s *site) runMailq(verb string, args ...string) bool {
	args = append([]string{"-Z", s.dir + "/zmailer.conf", "-p", s.dir + "/mailq", "--timeout", "10s"}, args...)
	cmd := s.command("mailq", args...)
	if err := cmd.Start(); err != nil {
		s.t.Errorf("mailq: %v", err)
		return false
	}
	killed := rand.IntN(50) == 0
	if killed {
		_ = cmd.Process.Kill()
		s.faults.count("SIGKILL of mailq")
	}
	ok := cmd.Wait() == nil
	if killed {
		time.Sleep(time.Second) // the scheduler may carry it out all the same
	}
	if ok {
		s.mu.Lock()
		s.orders[verb]++
		s.mu.Unlock()
	}
	return ok
}

// orderMessage gives an order about one message. Before it does, the ledger learns what
// the order may do.
func (s *site) orderMessage() {
	dir := "transport"
	if rand.IntN(2) == 0 {
		dir = "hold/transport"
	}
	m, file := s.anyTarget(dir)
	if m == nil {
		return
	}
	verbs := []string{"hold", "hold", "hold", "retry", "requeue", "reroute", "expire", "kill"}
	if dir != "transport" {
		verbs = []string{"release", "release", "requeue", "reroute", "expire", "kill"}
	}
	verb := verbs[rand.IntN(len(verbs))]
	args := []string{verb, m.id, "--because", "soak"}
	if verb == "hold" && rand.IntN(3) > 0 {
		s.holdMessage(m, file, args)
		return
	}
	switch verb {
	case "hold":
		args = append(args, "--for", "2s")
	case "reroute":
		if m.expires || m.local || m.number == 0 {
			return // it would wait for an hour, or arrive at another address
		}
		args = []string{verb, "--to", "smtp/[127.0.0." + fmt.Sprint(2+rand.IntN(2)) + "]", m.id, "--because", "soak"}
		s.mark(m, func(e *entry) { e.resentAt = time.Now() })
	case "requeue":
		s.mark(m, func(e *entry) { e.resentAt = time.Now() })
	case "expire", "kill":
		// A killed notice would count as missing. A few of these orders are enough.
		if m.number == 0 || rand.IntN(4) > 0 {
			return
		}
		s.mark(m, func(e *entry) { e.killed, e.expired = e.killed || verb == "kill", e.expired || verb == "expire" })
	}
	if verb != "retry" {
		defer s.ledger.loosen(func(k key) bool { return k.message == m.number })()
	}
	s.runMailq(strings.ToUpper(verb)+" of a message", args...)
}

// holdMessage holds a message until an order lets it go. Its mail is surely held when its
// file has moved.
func (s *site) holdMessage(m *target, file string, args []string) {
	begun := time.Now()
	if !s.runMailq("HOLD of a message", args...) {
		return
	}
	for range 100 {
		if now, err := s.target("hold/transport", file); err == nil && now.id == m.id {
			s.ledger.holds(now.keys, begun)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *site) mark(m *target, change func(*entry)) {
	for _, k := range m.keys {
		s.ledger.update(k, "an order", change)
	}
}

// anyTarget looks for a message in a directory that an order can be about; nil if it finds
// none soon.
func (s *site) anyTarget(dir string) (*target, string) {
	files := s.files(dir)
	rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	for _, file := range files[:min(len(files), 50)] {
		if m, err := s.target(dir, file); err == nil {
			return m, file
		}
	}
	return nil, ""
}

// target reads a control file. It refuses a message that is younger than two seconds,
// because its number may have belonged to another message in the same second.
func (s *site) target(dir, file string) (*target, error) {
	// The id and the recipients are those of one message only if it is there before and after
	// they are read. Otherwise the order would be noted for a message that it is not about.
	body := filepath.Join(s.po, filepath.Dir(dir), "queue", file)
	var st, after syscall.Stat_t
	if err := syscall.Stat(body, &st); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(s.po, dir, file))
	if err != nil {
		return nil, err
	}
	f, err := ctlfile.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := syscall.Stat(body, &after); err != nil {
		return nil, err
	}
	if after.Mtim != st.Mtim || after.Ino != st.Ino {
		return nil, errors.New("another message has its name now")
	}
	n, ok := ctlfile.Number(filepath.Base(file))
	written := time.Unix(st.Mtim.Unix())
	if !ok || time.Since(written) < 2*time.Second {
		return nil, errors.New("too young")
	}
	m := &target{id: ctlfile.SpoolID(n, written)}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "X-Soak: %d", &m.number)
	}
	for _, r := range f.Recipients {
		address := strings.ToLower(r.User)
		if r.Channel == "local" {
			m.local = true
			if !strings.Contains(address, "@") {
				address += "@" + here
			}
		}
		m.expires = m.expires || strings.HasSuffix(address, "@"+slow) || strings.HasSuffix(address, "@"+down)
		if m.number > 0 {
			m.keys = append(m.keys, key{m.number, address})
		}
	}
	return m, nil
}
