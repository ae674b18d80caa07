package asyncsyslog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// daemon is a syslogd that listens or does not.
type daemon struct {
	listens bool
	dials   int
	lines   []string
}

func (d *daemon) dial(Options) (connection, error) {
	d.dials++
	if !d.listens {
		return nil, errors.New("connection refused")
	}
	return d, nil
}

func (d *daemon) Info(line string) error {
	if !d.listens {
		return errors.New("connection reset")
	}
	d.lines = append(d.lines, line)
	return nil
}

func (d *daemon) Err(line string) error { return d.Info("error: " + line) }
func (d *daemon) Close() error          { return nil }

func TestConnectsAgainAfterAPauseThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, failures := &daemon{}, 0
		w := open(Options{Failed: func(error) { failures++ }}, d.dial)
		// A line each millisecond for a minute.
		for range 60_000 {
			w.Info("x")
			time.Sleep(time.Millisecond)
		}
		if d.dials < 5 || d.dials > 15 || failures != 1 {
			t.Errorf("%d connections were tried and %d errors told in a minute", d.dials, failures)
		}
		d.listens = true
		time.Sleep(maxPause)
		w.Info("first")
		w.Error("second")
		synctest.Wait()
		d.listens = false
		w.Info("lost")
		synctest.Wait()
		d.listens = true
		time.Sleep(minPause)
		w.Info("third")
		w.Close()
		const want = "60000 lines were lost here; first; error: second; 1 lines were lost here; third"
		if got := strings.Join(d.lines, "; "); got != want {
			t.Errorf("syslogd has %q, want %q", got, want)
		}
	})
}

func TestSyslogdThatTakesNothingDoesNotHoldClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		w := open(Options{CloseTimeout: time.Second}, func(Options) (connection, error) {
			<-stuck
			return nil, errors.New("gone")
		})
		for i := range 2 * queueLength {
			w.Info(fmt.Sprint(i))
		}
		began := time.Now()
		w.Close()
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		close(stuck)
		synctest.Wait()
	})
}
