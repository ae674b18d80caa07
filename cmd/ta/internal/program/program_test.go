package program

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ta"
)

// parse reads a command line and returns the exit status, or -1 if the agent is
// to run, and what was printed.
func parse(line string) (p *Program, status int, stdout, stderr string) {
	var out, err bytes.Buffer
	p = New("try", "smtp", &out, &err)
	status = -1
	e := p.Parse(strings.Fields(line))
	if e == nil {
		e = p.Host()
	}
	if e != nil {
		status = p.Exit(e)
	}
	return p, status, out.String(), err.String()
}

func TestOptionsOfAllAgents(t *testing.T) {
	p, status, _, _ := parse("-c local --marking scheduler --sessions 3 --sender-owned example.org")
	s := p.Server
	if status != -1 || s.Name != "try" || s.Channel != "local" || s.Host != "example.org" ||
		s.Marking != ta.SchedulerMarks || s.Sessions != 3 || !s.SenderOwned {
		t.Errorf("status %d, %+v", status, s)
	}
	if p, _, _, _ := parse(""); p.Server.Channel != "smtp" || p.Server.Sessions != 1 || p.Server.SenderOwned {
		t.Errorf("without options: %+v", p.Server)
	}
	for line, want := range map[string]string{
		"one two":          `try: one host at most, not ["one" "two"]`,
		"--marking nobody": `try: marking "nobody" is neither agent nor scheduler`,
		"--sessions -1":    "try: --sessions -1 is less than 0",
		"--none":           "try: unknown flag: --none",
	} {
		if _, status, _, stderr := parse(line); status != ta.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q", line, status, stderr)
		}
	}
	if _, status, stdout, _ := parse("-V"); status != ta.ExitOK || !strings.HasPrefix(stdout, "try ") {
		t.Errorf("-V: status %d, %q", status, stdout)
	}
	if _, status, _, stderr := parse("--help"); status != ta.ExitOK || !strings.Contains(stderr, "--marking") {
		t.Errorf("--help: status %d, %q", status, stderr)
	}
}

// The agent reads nothing from the scheduler, so the test ends.
func TestCheckServesNothing(t *testing.T) {
	p, status, _, _ := parse("--check example.org")
	if p.LogTo(nil); status != -1 || p.Serve() != ta.ExitOK || p.Server.Syslog != nil {
		t.Errorf("status %d, %+v", status, p.Server)
	}
}

func TestUnreadableZmailerConfEndsTheAgent(t *testing.T) {
	t.Setenv("ZCONFIG", filepath.Join(t.TempDir(), "none"))
	var stderr bytes.Buffer
	p := New("try", "", &stderr, &stderr)
	_, err := p.Zenv()
	if err == nil || p.Exit(err) != ta.ExitUsage || !strings.HasPrefix(stderr.String(), "try: reading zmailer.conf: ") {
		t.Errorf("%v, %q", err, &stderr)
	}
	if status := p.Exit(errors.New("x")); status != ta.ExitUsage {
		t.Errorf("another error: status %d", status)
	}
}
