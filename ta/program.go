package ta

// This file provides what agents that run programs need: accounts, the message as a
// program's standard input, what it prints, and exit codes.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Account is a user of the system. An agent that is root can act as that user.
type Account struct {
	Name, Home string
	FullName   string // the full name in the password file
	UID, GID   int
	Groups     []int // supplementary ones
}

// ErrNoAccount says that there is no such account. Any other error of a lookup
// is temporary.
var ErrNoAccount = errors.New("unknown")

// AccountByName looks a user up by name.
func AccountByName(name string) (*Account, error) { return newAccount(user.Lookup(name)) }

// AccountByUID looks a user up by uid.
func AccountByUID(uid int) (*Account, error) { return newAccount(user.LookupId(strconv.Itoa(uid))) }

func newAccount(u *user.User, err error) (*Account, error) {
	var noName user.UnknownUserError
	var noID user.UnknownUserIdError
	switch {
	case errors.As(err, &noName) || errors.As(err, &noID):
		return nil, ErrNoAccount
	case err != nil:
		return nil, err
	}
	acc := &Account{Name: u.Username, Home: u.HomeDir, FullName: u.Name}
	if acc.UID, err = strconv.Atoi(u.Uid); err != nil {
		return nil, err
	}
	if acc.GID, err = strconv.Atoi(u.Gid); err != nil {
		return nil, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("its groups: %w", err)
	}
	for _, g := range groups {
		gid, err := strconv.Atoi(g)
		if err != nil {
			return nil, err
		}
		acc.Groups = append(acc.Groups, gid)
	}
	return acc, nil
}

// Credential returns the credential of a process that runs as acc, in group gid.
// It always sets the supplementary groups, so that the process keeps none of
// ours.
func (acc *Account) Credential(gid int) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(acc.UID), Gid: uint32(gid), Groups: []uint32{uint32(acc.GID)}}
	for _, g := range acc.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

// Input is the standard input of a program: a file without a name, in $TMPDIR
// or /tmp, that holds what write writes. It is complete before the program
// starts, so a program never gets half a message, whatever happens to the
// agent. The file is positioned at its start and belongs to uid and gid (-1:
// to us), who may open it again as /dev/stdin.
func Input(write func(*bufio.Writer) error, uid, gid int) (f *os.File, err error) {
	if f, err = unnamedFile(); err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	w := bufio.NewWriterSize(f, 32<<10)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the message: %w", err)
	}
	return f, nil
}

// tmpFile is O_TMPFILE of open(2), which package syscall does not have.
const tmpFile = 0o20000000 | syscall.O_DIRECTORY

func unnamedFile() (*os.File, error) {
	dir := os.TempDir()
	if fd, err := syscall.Open(dir, tmpFile|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600); err == nil {
		return os.NewFile(uintptr(fd), dir+"/message"), nil
	}
	f, err := os.CreateTemp(dir, "message-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// maxOutput is how much of a program's output is kept, in bytes.
const maxOutput = 4000

// ProgramOutput takes what a program prints and keeps the beginning of it for a
// report.
type ProgramOutput struct {
	mu      sync.Mutex // processes that the program left behind may still write
	kept    []byte
	dropped int // bytes not kept
}

// Write takes everything; it returns no error.
func (o *ProgramOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(b), maxOutput-len(o.kept))
	o.kept = append(o.kept, b[:n]...)
	o.dropped += len(b) - n
	return len(b), nil
}

// Text is the output as lines for a report, without the control characters
// that would act on a terminal.
func (o *ProgramOutput) Text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(o.kept), "?"))
	text = strings.Trim(text, "\n \t")
	if o.dropped > 0 {
		text += fmt.Sprintf("\n... and %d bytes more", o.dropped)
	}
	return text
}

// The exit codes of delivery programs (sysexits.h).
const (
	ExitOK          = 0
	ExitUsage       = 64
	ExitDataErr     = 65
	ExitNoInput     = 66
	ExitNoUser      = 67
	ExitNoHost      = 68
	ExitUnavailable = 69
	ExitSoftware    = 70
	ExitOSErr       = 71
	ExitOSFile      = 72
	ExitCantCreate  = 73
	ExitIOErr       = 74
	ExitTempFail    = 75
	ExitProtocol    = 76
	ExitNoPerm      = 77
	ExitConfig      = 78
)
