package logs

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// listener is a syslogd that listens or does not.
type listener struct {
	listens atomic.Bool
	dials   atomic.Int32
	lines   []string
}

func (l *listener) dial() (connection, error) {
	l.dials.Add(1)
	if !l.listens.Load() {
		return nil, errors.New("connection refused")
	}
	return l, nil
}

func (l *listener) Info(line string) error {
	if !l.listens.Load() {
		return errors.New("connection reset")
	}
	l.lines = append(l.lines, line)
	return nil
}

func (l *listener) Err(line string) error { return l.Info("error: " + line) }
func (l *listener) Close() error          { return nil }

func TestSyslogIsTriedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		var failures atomic.Int32
		s := openSyslog(SyslogOptions{Failed: func(error) { failures.Add(1) }}, l.dial)
		// A line each millisecond for a minute.
		const line = 3 // bytes kept for "x"
		for range 60_000 {
			s.Info("x")
			time.Sleep(time.Millisecond)
		}
		if n := l.dials.Load(); n < 55 || n > 65 || failures.Load() != 1 {
			t.Errorf("%d connections were tried and %d errors told in a minute", n, failures.Load())
		}
		l.listens.Store(true)
		time.Sleep(2 * reopenInterval)
		s.Error("second")
		synctest.Wait()
		l.listens.Store(false)
		s.Info("kept")
		synctest.Wait()
		l.listens.Store(true)
		time.Sleep(2 * reopenInterval)
		s.Info("third")
		s.Close()
		const kept = maxForSyslog / line
		if got := len(l.lines); got < kept+4 {
			t.Fatalf("syslogd has %d lines", got)
		}
		want := fmt.Sprintf("x; error: second; %d lines were lost here; kept; third", 60_000-kept)
		// The word about the loss comes as soon as lines are taken again.
		tail := l.lines[kept-1:]
		if tail[1] != "error: second" {
			tail[1], tail[2] = tail[2], tail[1]
		}
		if got := strings.Join(tail, "; "); got != want {
			t.Errorf("syslogd has at last %q, want %q", got, want)
		}
	})
}

func TestSyslogdThatTakesNothingDoesNotHoldClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		s := openSyslog(SyslogOptions{}, func() (connection, error) {
			<-stuck
			return nil, errors.New("gone")
		})
		for range maxForSyslog {
			s.Info("line")
		}
		began := time.Now()
		s.Close()
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("Close took %v", took)
		}
		close(stuck)
		synctest.Wait()
	})
}
