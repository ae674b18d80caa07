package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"zsched/mailq"
)

// This file reads the auth file (PARAMauthfile in scheduler.cf(5); scheduler(8),
// "MAILQv2 AUTHENTICATION FILE"). A line is user:password:attributes:addresses.
// Only the first line that names the user, accepts the address and has a known
// attribute counts. The file is read at each greeting and each login, so there is
// nothing to reload.

const (
	maxAuthLine = 1998    // bytes; ZMailer ignored longer lines
	maxAuthFile = 4 << 20 // bytes
)

// account is a line of the auth file.
type account struct {
	user, password string
	rights         rights
	from           addressList
}

// accounts are the lines of the auth file that have a known attribute, in file
// order.
type accounts []account

// readAccounts reads the auth file. The file holds passwords: it must be a
// regular file, belong to root or uid, and be readable and writable only by its
// owner. problems lists lines that are ignored or whose addresses do not mean
// what they seem to.
func readAccounts(path string, uid int) (list accounts, problems []error, err error) {
	// O_NONBLOCK: a named pipe in its place must not block the session.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("auth file: %w", err)
	}
	defer f.Close()
	if err := checkAuthFile(f, uid); err != nil {
		return nil, nil, fmt.Errorf("auth file %s is not used: %w", path, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAuthFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("auth file: %w", err)
	}
	if len(text) > maxAuthFile {
		return nil, nil, fmt.Errorf("auth file %s is not used: it is larger than %d bytes", path, maxAuthFile)
	}
	list, problems = parseAccounts(string(text))
	for i, p := range problems {
		problems[i] = fmt.Errorf("auth file %s:%w", path, p)
	}
	return list, problems, nil
}

func checkAuthFile(f *os.File, uid int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if perm := info.Mode().Perm(); perm&^0o600 != 0 {
		return fmt.Errorf("its mode is %04o and must be 0600: it holds passwords", perm)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != uid {
		return fmt.Errorf("it belongs to uid %d and must belong to root or uid %d", stat.Uid, uid)
	}
	return nil
}

// CheckAuthFile returns what is wrong with an auth file for a server that runs as
// uid: why the server would not use it, which lines it ignores, or which lines have
// addresses that do not mean what they seem to.
func CheckAuthFile(path string, uid int) []error {
	_, problems, err := readAccounts(path, uid)
	if err != nil {
		return []error{err}
	}
	return problems
}

func parseAccounts(text string) (list accounts, problems []error) {
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		if line == "" || line[0] == '#' || line[0] == '*' {
			continue
		}
		problem := func(err error) { problems = append(problems, fmt.Errorf("%d: %w", n, err)) }
		fields := strings.SplitN(line, ":", 4)
		switch {
		case len(line) > maxAuthLine:
			problem(fmt.Errorf("ignored, because it is longer than %d bytes", maxAuthLine))
			continue
		case len(fields) < 4:
			problem(errors.New("ignored, because it has fewer than the four fields user:password:attributes:addresses"))
			continue
		}
		granted, known, unknown := parseRights(fields[2])
		for _, word := range unknown {
			problem(fmt.Errorf("the attribute %q is unknown and grants nothing", word))
		}
		if !known {
			// The line is for another program that shares the file.
			continue
		}
		if fields[1] == "" && granted != 0 {
			problem(errors.New("ignored, because its password is empty"))
			continue
		}
		from, err := parseAddresses(fields[3])
		if err != nil {
			problem(err)
		}
		list = append(list, account{fields[0], fields[1], granted, from})
	}
	return list, problems
}

// mayConnect reports whether a peer could log in as any user.
func (l accounts) mayConnect(p Peer) bool {
	for i := range l {
		if l[i].rights != 0 && l[i].accepts(p) {
			return true
		}
	}
	return false
}

// find returns the line for a user and a peer. A line that grants NONE hides the
// lines after it; it is found, but ok is false.
func (l accounts) find(user string, p Peer) (a *account, ok bool) {
	for i := range l {
		if l[i].user == user && l[i].accepts(p) {
			return &l[i], l[i].rights != 0
		}
	}
	return nil, false
}

func (a *account) accepts(p Peer) bool {
	for _, addr := range p.addresses() {
		if a.from.accepts(addr) {
			return true
		}
	}
	return false
}

// verify reports whether a digest is that of the password. It compares in
// constant time.
func (a *account) verify(challenge, digest string) bool {
	return subtle.ConstantTimeCompare([]byte(mailq.Digest(challenge, a.password)), []byte(digest)) == 1
}

// guessInterval is how often the server answers a failed login, so that nobody can try passwords
// by the thousand, from however many connections.
const guessInterval = 200 * time.Millisecond

// delay waits until a failed login may be answered: one after the other. It returns false if ctx
// is done first.
func (s *Server) delay(ctx context.Context) bool {
	select {
	case s.failed <- true:
		defer func() { <-s.failed }()
	case <-ctx.Done():
		return false
	}
	select {
	case <-time.After(guessInterval):
		return true
	case <-ctx.Done():
		return false
	}
}
