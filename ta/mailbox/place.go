package mailbox

// This file finds the mailbox of a user: the options -d, -D, -P and -C.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"zsched/ta"
)

// Place says where mailboxes are (options -d, -D, -P and -C).
type Place struct {
	// Path is a directory of mbox files named by their users, or, with a % in
	// it, the pattern of a mailbox: a Maildir if it ends in a slash, else an
	// mbox. It must be absolute. "" means the first of SpoolDirectories that
	// exists.
	//
	//	%u user   %h home directory   %U full name   %a address
	//	%D domain   %d its first label   %% a percent sign
	//	%x, %X the next letter of a hash of the user's name
	Path string
	// Letters is the number of directory levels that are named by the first
	// letters of the user's name, one letter each. Hashes is the number of
	// levels, 2 at most, that are named by a hash of it.
	Letters, Hashes int
	// Canonical takes a user's name from the password file, not the address.
	Canonical bool
}

// SpoolDirectories are the default directories of mbox files.
func SpoolDirectories() []string { return []string{"/var/mail", "/usr/mail", "/var/spool/mail"} }

func (p *Place) check() error {
	switch {
	case p.Path != "" && p.Path[0] != '/' && !strings.HasPrefix(p.Path, "%h"):
		return fmt.Errorf("mailboxes in %q: not an absolute path", p.Path)
	case p.Hashes > 2:
		return fmt.Errorf("%d levels of directories by hash (-P): two at most", p.Hashes)
	case p.Letters > 0 && p.Hashes > 0:
		return fmt.Errorf("directories by letters (-D) and by hash (-P) exclude each other")
	case p.pattern() && p.Letters+p.Hashes > 0:
		return fmt.Errorf("a pattern (%q) cannot have levels of directories (-D, -P); use %%x or %%X in it", p.Path)
	}
	for rest := p.Path; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return nil
		}
		if after == "" || !strings.Contains("uhUaDdxX%", after[:1]) {
			return fmt.Errorf("mailboxes in %q: unknown letter after %%", p.Path)
		}
		rest = after[1:]
	}
}

func (p *Place) pattern() bool { return strings.Contains(p.Path, "%") }

// find returns the path of a user's mailbox, and whether it is below the home
// directory.
func (p *Place) find(to target) (path string, home bool, err error) {
	name := to.name
	if p.Canonical {
		name = to.Account.Name
	}
	if p.pattern() {
		path, err = p.expand(to, name)
	} else {
		path, err = p.spool(name)
	}
	if err == nil && !filepath.IsAbs(path) {
		err = fmt.Errorf("mailbox %q is not an absolute path", path)
	}
	if err != nil {
		return "", false, &failure{ta.Deferred, "4.3.5 (mailbox path)", err}
	}
	return path, strings.Contains(p.Path, "%h"), nil
}

// spool is the path of a user's mbox in the directory of all mailboxes.
func (p *Place) spool(name string) (string, error) {
	dir := p.Path
	if dir == "" {
		for _, d := range SpoolDirectories() {
			if info, err := os.Stat(d); err == nil && info.IsDir() {
				dir = d
				break
			}
		}
	}
	if dir == "" {
		return "", fmt.Errorf("none of the directories exists: %s", strings.Join(SpoolDirectories(), ", "))
	}
	if err := component(name); err != nil {
		return "", err
	}
	levels := []string{dir}
	for i := 0; i < p.Letters && i < len(name); i++ {
		levels = append(levels, name[i:i+1])
	}
	switch h := pjw(name); p.Hashes {
	case 1:
		levels = append(levels, letter26(h))
	case 2:
		levels = append(levels, letter26(h/26), letter26(h))
	}
	return filepath.Join(append(levels, name)...), nil
}

// expand expands a pattern. Except for the home directory, what comes from an
// address or the password file is at most one component of the path.
func (p *Place) expand(to target, name string) (string, error) {
	var b strings.Builder
	pjwHash, crcHash := pjw(to.Account.Name), crc31(to.Account.Name)
	for i := 0; i < len(p.Path); i++ {
		if p.Path[i] != '%' {
			b.WriteByte(p.Path[i])
			continue
		}
		var value string
		i++ // check has made sure that there is one
		switch p.Path[i] {
		case '%':
			b.WriteByte('%')
			continue
		case 'h':
			if !filepath.IsAbs(to.Home) {
				return "", fmt.Errorf("home directory %q is not an absolute path", to.Home)
			}
			b.WriteString(to.Home)
			continue
		case 'x':
			value, pjwHash = letter26(pjwHash), pjwHash/26
		case 'X':
			value, crcHash = letter26(crcHash), crcHash/26
		case 'u':
			value = name
		case 'U':
			value = to.FullName
		case 'a':
			if value = name; to.domain != "" {
				value += "@" + to.domain
			}
		case 'D':
			value = p.domain(to)
		case 'd':
			value, _, _ = strings.Cut(p.domain(to), ".")
		}
		if err := component(value); err != nil {
			return "", err
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// domain is the domain of an address in lower case, so that the name of a
// directory does not depend on how the sender wrote it.
func (p *Place) domain(to target) string {
	if to.domain == "" {
		return "defaultdomain"
	}
	return lower(to.domain)
}

// component refuses a name that would lead to another directory.
func component(s string) error {
	if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\x00") {
		return fmt.Errorf("%q cannot be part of a mailbox's path", s)
	}
	return nil
}

func letter26(h uint32) string { return string(rune('A' + h%26)) }

// pjw is P. J. Weinberger's hash, of 28 bits.
func pjw(s string) (h uint32) {
	for i := 0; i < len(s); i++ {
		h = h<<4 + uint32(s[i])
		top := h & 0xf0000000
		h = h ^ top>>24 ^ top
	}
	return h
}

// crc31 is the checksum that ZMailer calls crc32: its polynomial is
// x^31 + x^3 + 1 with reversed bits, and it uses seven bits of each byte.
func crc31(s string) (crc uint32) {
	const polynomial = 0x48000000
	for i := 0; i < len(s); i++ {
		low := (crc ^ uint32(s[i])) & 0x7f
		crc >>= 7
		for bit := range 7 {
			if low>>bit&1 != 0 {
				crc ^= polynomial >> bit
			}
		}
	}
	return crc
}
