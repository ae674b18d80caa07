package soak

// Leaks: what the daemons use after all the work, and what they used before it.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// figures are what a daemon uses.
type figures struct{ files, goroutines, heap int }

func (f figures) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d MB of heap in use", f.files, f.goroutines, f.heap)
}

// maxRestHeap is how many megabytes of heap a daemon may have in use at rest. 64 of them
// are the scheduler's ballast, and what a thousand messages need may stay allocated.
const maxRestHeap = 64 + 24

// exceeds reports whether a daemon that was at work uses more than before.
func (f figures) exceeds(before figures) bool {
	return f.files > before.files+8 || f.goroutines > before.goroutines+16 || f.heap > maxRestHeap
}

// watchGrowth prints what the daemons use while none of them is killed.
func (s *site) watchGrowth(ctx context.Context, calm time.Time) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Until(calm)):
	}
	begun := time.Now()
	for every := time.Second; pause(ctx, every); every = min(2*every, 2*time.Minute) {
		for _, p := range s.daemons() {
			s.t.Logf("%s after %s under load: %d descriptors, %d MB of heap in use",
				p.name, time.Since(begun).Round(time.Second), openFiles(p.pid()), p.log.megabytes())
		}
	}
}

// openFiles counts the descriptors of a process.
func openFiles(pid int) int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(list)
}

// measureFresh sends some mail through all programs, and measures them when they are
// at rest again.
func (s *site) measureFresh(ctx context.Context) (fresh []figures) {
	sent := 0
	err := s.until(ctx, time.Minute, func() error {
		if sent < 3 && s.submitOne(sent) == nil {
			sent++
		}
		if sent < 3 || len(s.waiting()) > 0 {
			return fmt.Errorf("%d messages were sent, %d files wait", sent, len(s.waiting()))
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("the programs do not work: %v\n%s", err, s.scheduler.log.text())
	}
	for _, p := range s.daemons() {
		f, err := s.atRest(ctx, p, func(figures) bool { return true })
		if err != nil {
			s.t.Fatalf("%s: %v", p.name, err)
		}
		fresh = append(fresh, f)
	}
	return fresh
}

// checkLeaks compares the daemons after all the work with what they used before.
func (s *site) checkLeaks(ctx context.Context, fresh []figures) {
	for i, p := range s.daemons() {
		after, err := s.atRest(ctx, p, func(f figures) bool { return !f.exceeds(fresh[i]) })
		s.t.Logf("%s at rest after the work: %v; before it: %v", p.name, after, fresh[i])
		if err != nil || after.exceeds(fresh[i]) {
			s.t.Errorf("%s leaks (%v)", p.name, err)
		}
	}
}

// restTime bounds the time in which a daemon has to come to rest: idle agents and
// sessions end, and the runtime collects garbage every two minutes.
const restTime = 150 * time.Second

// atRest waits until a daemon has no agents and accept returns true for its figures. It
// then ends the router or the SMTP server with SIGQUIT, so that it lists its goroutines.
func (s *site) atRest(ctx context.Context, p *program, accept func(figures) bool) (f figures, err error) {
	err = s.until(ctx, restTime, func() error {
		f = figures{files: openFiles(p.pid()), heap: p.log.megabytes()}
		if p == s.scheduler {
			if n := len(s.processes("ta/")); n > 0 {
				return fmt.Errorf("there are %d agents", n)
			}
			if f.goroutines, err = s.schedulerGoroutines(); err != nil {
				return err
			}
		}
		if !accept(f) {
			return errors.New("it uses more than before")
		}
		return nil
	})
	if err != nil || p == s.scheduler {
		return f, err
	}
	before := p.pid()
	p.signal(syscall.SIGQUIT, "SIGQUIT of "+p.name)
	err = s.until(ctx, time.Minute, func() error {
		if now := p.pid(); now == 0 || now == before {
			return errors.New("it does not end")
		}
		return nil
	})
	f.goroutines = p.log.goroutines()
	p.log.forget()
	return f, err
}

// until waits until holds returns no error, but at most for the time most.
func (s *site) until(ctx context.Context, most time.Duration, holds func() error) (err error) {
	for end := time.Now().Add(most); time.Now().Before(end); {
		if err = holds(); err == nil || !pause(ctx, 50*time.Millisecond) {
			return err
		}
	}
	return err
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// schedulerGoroutines reads the number of goroutines in the scheduler's metrics.
func (s *site) schedulerGoroutines() (int, error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", s.dir+"/metrics")
		},
	}}
	r, err := c.Get("http://scheduler/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	found := goroutines.FindSubmatch(text)
	if err != nil || found == nil {
		return 0, fmt.Errorf("metrics without goroutines: %w", err)
	}
	return strconv.Atoi(string(found[1]))
}
