package mailbox

// This file finds the mailbox of a user: the options -d and -C.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"zsched/ta"
)

// Place says where mailboxes are (options -d and -C).
type Place struct {
	// Path is a directory of mbox files named by their users, or, with a % in
	// it, the pattern of a mailbox: a Maildir if it ends in a slash, else an
	// mbox. It must be absolute. "" means the first of SpoolDirectories that
	// exists.
	//
	//	%u user   %h home directory   %U full name   %a address
	//	%D domain   %d its first label   %% a percent sign
	Path string
	// Canonical takes a user's name from the password file, not the address.
	Canonical bool
}

// SpoolDirectories are the default directories of mbox files.
func SpoolDirectories() []string { return []string{"/var/mail", "/usr/mail", "/var/spool/mail"} }

func (p *Place) check() error {
	if p.Path != "" && p.Path[0] != '/' && !strings.HasPrefix(p.Path, "%h") {
		return fmt.Errorf("mailboxes in %q: not an absolute path", p.Path)
	}
	for rest := p.Path; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return nil
		}
		if after == "" || !strings.Contains("uhUaDd%", after[:1]) {
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
	return filepath.Join(dir, name), nil
}

// expand expands a pattern. Except for the home directory, what comes from an
// address or the password file is at most one component of the path.
func (p *Place) expand(to target, name string) (string, error) {
	var b strings.Builder
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
	return strings.ToLower(to.domain)
}

// component refuses a name that would lead to another directory.
func component(s string) error {
	if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\x00") {
		return fmt.Errorf("%q cannot be part of a mailbox's path", s)
	}
	return nil
}
