package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/mailq"
)

// ThreadLine is a line of SHOW QUEUE THREADS2, the thread's name and numbers.
// Fields that it does not have are zero.
func ThreadLine(line string) (mailq.Thread, error) {
	fields := strings.Split(line, "\t")
	if len(fields) < 2 || fields[0] == "" {
		return mailq.Thread{}, fault(Garbled, "malformed thread %q", line)
	}
	t := mailq.Thread{Name: mailq.Name{Channel: fields[0], Host: fields[1]}}
	for _, field := range fields[2:] {
		key, value, _ := strings.Cut(field, "=")
		switch n, err := strconv.Atoi(value); {
		case key == "pend":
			t.Pending = mailq.Pending(value)
		case err != nil:
		case key == "N":
			t.Jobs = n
		case key == "R":
			t.Recipients = n
		case key == "A":
			t.Attempts = n
		}
	}
	return t, nil
}

// RecipientLine is a line of SHOW THREAD: one recipient of one message
// (scheduler(8), "MAILQv2 PROTOCOL").
type RecipientLine struct {
	Path      string // of the control file below transport/
	Index     int    // in its message's group; 0 begins a group
	Sender    string // "" for <>
	Offset    int64  // of the recipient in the control file
	ExpiresAt time.Time
	WakeAt    time.Time
	FedAt     time.Time
	Attempts  int
	Why       string // what it waits for
	Reason    string // last diagnostic; \r between lines
}

// parseRecipient reads a line of SHOW THREAD. The line about the thread
// itself, which begins with "#", is none.
func parseRecipient(line string) (*RecipientLine, error) {
	malformed := func(what string) error {
		return fault(Garbled, "malformed recipient %q: %s", line, what)
	}
	f := strings.SplitN(line, "\t", 11)
	if len(f) > 1 && !isNumber(f[1]) {
		// Servers before ZMailer 2.99.52 do not number the recipients.
		f = append([]string{f[0], "0"}, f[1:]...)
	}
	if len(f) < 10 {
		return nil, malformed("it has too few fields")
	}
	var n [10]int64
	for _, i := range []int{1, 3, 4, 5, 6, 7} {
		var err error
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return nil, malformed(fmt.Sprintf("%q is not a number", f[i]))
		}
	}
	return &RecipientLine{
		Path: f[0], Index: int(n[1]), Sender: f[2], Offset: n[3],
		ExpiresAt: unixTime(n[4]), WakeAt: unixTime(n[5]), FedAt: unixTime(n[6]),
		Attempts: int(n[7]), Why: f[8], Reason: f[9],
	}, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// unixTime is a time_t, of which 0 is none.
func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
