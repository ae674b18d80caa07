package server

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"zsched/mailq"
)

// The auth file says who may ask what (scheduler(8), "MAILQv2 AUTHENTICATION
// FILE"). A line is user:password:attributes:addresses; the first that has the
// user, welcomes the address and holds a known attribute counts, and no other.
// The file is read again whenever it is needed, so there is nothing to reload.

const (
	maxAuthLine = 1998    // bytes; longer ones never counted
	maxAuthFile = 4 << 20 // bytes; far more than a file of users is long
)

// account is a line of the auth file.
type account struct {
	user, password string
	rights         Rights
	from           addressList
}

// accounts are the lines that can count, in their order.
type accounts []account

// readAccounts reads the auth file. It must be a regular file that only its
// owner may read or write, and the owner root or uid: it holds passwords.
// Problems are lines that do not mean what they seem to.
func readAccounts(path string, uid int) (list accounts, problems []error, err error) {
	// A named pipe in its place must not hold the session up.
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
		return errors.New("it is no regular file")
	}
	if perm := info.Mode().Perm(); perm&^0o600 != 0 {
		return fmt.Errorf("its mode is %04o and must be 0600: it holds passwords", perm)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != uid {
		return fmt.Errorf("it belongs to uid %d and must belong to root or uid %d", stat.Uid, uid)
	}
	return nil
}

// CheckAuthFile says what is wrong with an auth file, for a server that runs
// with a uid: why it would be refused, and lines that do not mean what they
// seem to.
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
			problem(fmt.Errorf("longer than %d bytes and not used", maxAuthLine))
			continue
		case len(fields) < 4:
			problem(errors.New("less than four fields and not used: user:password:attributes:addresses"))
			continue
		}
		rights, known := parseRights(fields[2])
		if !known {
			// A line for other programs that share the file.
			continue
		}
		from, bad := parseAddresses(fields[3])
		for _, err := range bad {
			problem(err)
		}
		list = append(list, account{fields[0], fields[1], rights, from})
	}
	return list, problems
}

// welcome says whether a peer could log in as anybody.
func (l accounts) welcome(p Peer) bool {
	for i := range l {
		if l[i].rights != 0 && l[i].accepts(p) {
			return true
		}
	}
	return false
}

// find is the line for a user who comes from a peer. A line that grants NONE
// is found as well as any, so that none behind it counts, and then refused.
func (l accounts) find(user string, p Peer) (*account, bool) {
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

// proves compares a digest in a time that does not depend on where it differs.
func (a *account) proves(challenge, digest string) bool {
	return subtle.ConstantTimeCompare([]byte(mailq.Digest(challenge, a.password)), []byte(digest)) == 1
}
