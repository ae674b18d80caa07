package ta

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Verbose logs of messages.

func TestVerboseLogIsOnlyAddedTo(t *testing.T) {
	o := newTestSpool(t)
	for _, name := range []string{"v_1", "v_none", "v_link"} {
		o.put("1", rcpt("smtp", "a.example", "bob"))
		text := strings.Replace(o.read("transport/1"), "\ni ", "\nv ../public/"+name+"\ni ", 1)
		o.write("transport/1", text)
		if name == "v_1" {
			o.write("public/v_1", "")
		}
		if err := os.Symlink("v_1", filepath.Join(o.dir, "public/v_link")); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		o.serve(&Server{Deliver: with(Result{Status: OK, Text: "250 ok"})}, "1\ta.example\n")
	}
	expect(t, o.read("public/v_1"),
		"DIAG: C='smtp' H='a.example' U='bob' P='0' ID=1/98 L=99 -- stat='ok3' notary=''  MSG='250 ok'\n")
	if _, err := os.Stat(filepath.Join(o.dir, "public/v_none")); err == nil {
		t.Error("a verbose log was made")
	}
}

// The submitter chooses the name of the log, and the agent may be root.
func TestVerboseLogIsTheSubmittersOwn(t *testing.T) {
	o := newTestSpool(t)
	o.put("1", rcpt("smtp", "a.example", "bob"))
	o.write("transport/1", strings.Replace(o.read("transport/1"), "\ni ", "\nv ../public/log\ni ", 1))
	o.write("public/log", "")
	o.serve(&Server{Deliver: func(m *Message) {
		m.owner++ // as if another had submitted it
		m.Recipients[0].Report(Result{Status: OK, Text: "250 ok"})
	}}, "1\ta.example\n")
	expect(t, o.read("public/log"), "")
}

func TestVerboseLogOfAnotherUserIsNotEvenOpened(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to have a file of another user")
	}
	o := newTestSpool(t)
	o.put("B/I/7", rcpt("smtp", "a.example", "bob"))
	o.write("transport/B/I/7", strings.Replace(o.read("transport/B/I/7"), "\ni ", "\nv ../public/log\ni ", 1))
	o.write("public/log", "")
	log := filepath.Join(o.dir, "public/log")
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Opening for writing would break a lease.
	lease := func(cmd, arg int) int {
		r, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), uintptr(cmd), uintptr(arg))
		if errno != 0 {
			t.Skipf("no leases here: %v", errno)
		}
		return int(r)
	}
	const setLease, getLease = 1024, 1025
	lease(setLease, syscall.F_RDLCK)
	if err := os.Chown(log, 4711, -1); err != nil {
		t.Fatal(err)
	}
	o.serve(&Server{Deliver: with(Result{Status: OK})}, "B/I/7\ta.example\n")
	if got := lease(getLease, 0); got != syscall.F_RDLCK {
		t.Errorf("the file was opened: its lease is %d", got)
	}
}
