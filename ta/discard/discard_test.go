package discard

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/ta"
)

// deliver gives an agent the messages 1 … n, each with two recipients, and
// returns its reports.
func deliver(t *testing.T, a *Agent, n int) string {
	t.Helper()
	dir := t.TempDir()
	var jobLines, out bytes.Buffer
	for _, d := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		name := fmt.Sprint(i + 1)
		control := "i " + name + "\no 0\ns smtp mx alice 0\n" +
			"r           smtp a.example bob 0\nr           smtp a.example eve 0\nm\nA: b\n\n"
		for file, text := range map[string]string{"transport": control, "queue": ""} {
			if err := os.WriteFile(filepath.Join(dir, file, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&jobLines, "%s\ta.example\n", name)
	}
	s := &ta.Server{Channel: "smtp", Dir: filepath.Join(dir, "transport"), In: &jobLines, Out: &out, Deliver: a.Deliver}
	if err := s.Serve(context.Background()); err != nil {
		t.Error(err)
	}
	return out.String()
}

func newAgent(t *testing.T, o Options) *Agent {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestSharesAreAsAsked(t *testing.T) {
	for _, c := range []struct {
		options Options
		word    string
		low     int // of 200 recipients
		high    int
	}{
		{Options{}, "\tok3 discarded\n", 200, 200},
		{Options{Fail: 100}, "\terror2 failed on request\n", 200, 200},
		{Options{Defer: 100}, "\tdeferred deferred on request\n", 200, 200},
		{Options{Defer: 100, RetryAt: "+60"}, "\tretryat +60 deferred on request\n", 200, 200},
		{Options{Defer: 100, RetryAt: "1795235025"}, "\tretryat 1795235025 deferred on request\n", 200, 200},
		{Options{DeferAll: 100}, "\tdeferall destination is out of order\n", 100, 100},
		{Options{Fail: 20, Defer: 30, Seed: 7}, "\terror2 ", 20, 60},
		{Options{Fail: 20, Defer: 30, Seed: 7}, "\tdeferred ", 40, 80},
		{Options{Fail: 20, Defer: 30, Seed: 7}, "\tok3 ", 80, 120},
	} {
		reports := deliver(t, newAgent(t, c.options), 100)
		if n := strings.Count(reports, c.word); n < c.low || n > c.high {
			t.Errorf("%+v: %d times %q", c.options, n, c.word)
		}
	}
}

func TestSameSeedSameChances(t *testing.T) {
	o := Options{Fail: 20, Defer: 30, DeferAll: 10, Seed: 42}
	one, two := deliver(t, newAgent(t, o), 50), deliver(t, newAgent(t, o), 50)
	if one != two {
		t.Errorf("%s\n%s", one, two)
	}
}

func TestEachDeliveryIsLoggedBeforeItIsReported(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	a := newAgent(t, Options{Log: log, DieAfter: 3})
	died := 0
	a.die = func() {
		died++
		if b, err := os.ReadFile(log); err != nil || string(b) != "1 26\n1 59\n2 26\n" {
			t.Errorf("dies with the log %q, %v", b, err)
		}
	}
	deliver(t, a, 2)
	if died != 1 {
		t.Errorf("died %d times", died)
	}
}

func TestUnloggedDeliveryIsNone(t *testing.T) {
	a := newAgent(t, Options{Log: filepath.Join(t.TempDir(), "log")})
	a.log.Close()
	if reports := deliver(t, a, 1); strings.Count(reports, "\tdeferred ") != 2 {
		t.Errorf("%q", reports)
	}
}

func TestDelayIsPerMessage(t *testing.T) {
	a := newAgent(t, Options{Delay: time.Minute})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		deliver(t, a, 3)
		if took := time.Since(began); took != 3*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Fail: 101}, {Defer: -1}, {DeferAll: 200}, {Fail: 60, Defer: 60},
		{RetryAt: "soon"}, {RetryAt: "-5"}, {RetryAt: "+"}, {Log: "/none/such"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
