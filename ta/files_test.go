package ta

import (
	"syscall"
	"testing"
)

func TestLimitOfFilesThatCameLateIsRaised(t *testing.T) {
	var before, now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) }()
	low := syscall.Rlimit{Cur: before.Max / 2, Max: before.Max}
	for _, sessions := range []int{1, 2} {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
			t.Fatal(err)
		}
		o := newOffice(t)
		o.put("7", rcpt("smtp", "a.example", "bob"))
		o.serve(&Server{Sessions: sessions, Deliver: with(Result{Status: OK})}, "7\ta.example\n")
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil || now.Cur != before.Max {
			t.Errorf("%d sessions: %d files, %v; want %d", sessions, now.Cur, err, before.Max)
		}
	}
}
