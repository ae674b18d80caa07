package ctlfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"zsched/internal/syncdir"
)

// Submission is a message as the router takes it out of $POSTOFFICE/router:
// lines of envelope, the header, an empty line and the body.
//
//	external
//	rcvdfrom STDIN (scheduler@mx.example.org)
//	envid QQ314159
//	notaryret HDRS
//	from <alice@sender.example>
//	todsn NOTIFY=SUCCESS ORCPT=rfc822;bob@old.example
//	to <bob@smtp.example>
//	env-end
//	Subject: x
//
//	body
//
// "external" makes the router give the recipients no privilege, whoever owns
// the file. The file stays its writer's: from a user whom the router does not
// trust it would not believe the from line, nor "channel error", which stands
// in place of that line and means the null sender. The form has no line for an
// address of error messages: they go to the sender.
type Submission struct {
	By         string  // who submits it, "scheduler@mx.example.org"
	From       Address // the channel "error" is the null sender
	EnvID, Ret string  // envelope identity (xtext), and FULL or HDRS; "" for none
	To         []*Recipient
	Header     string // lines without an empty one between them
}

// Resubmissions makes submissions of some recipients, given by index: each
// sender, header, envelope identity and RET has one of its own, because no
// submission can have two. By is left to the caller.
func (f *File) Resubmissions(recipients []int) []*Submission {
	type key struct {
		from       Address
		header     int64
		ret, envID string
	}
	var list []*Submission
	made := map[key]*Submission{}
	for _, i := range recipients {
		r := &f.Recipients[i]
		k := key{f.Senders[r.Sender].Address, r.Header, r.Ret, r.EnvID}
		s := made[k]
		if s == nil {
			s = &Submission{From: k.from, EnvID: k.envID, Ret: k.ret, Header: f.Headers(i)}
			made[k] = s
			list = append(list, s)
		}
		s.To = append(s.To, r)
	}
	return list
}

// Front is all of a submission before its body. It refuses what the router
// would read as something else: an address that is not a PlainAddress, an empty
// line in the header. An ENVID, RET or N word that cannot stand in a line is
// left out: the mail is worth more.
func (s *Submission) Front() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("write submission: %w", err)
	}
	header := s.Header
	if header != "" && !strings.HasSuffix(header, "\n") {
		header += "\n"
	}
	return []byte(strings.Join(s.envelope(), "\n") + "\n" + header + "\n"), nil
}

func (s *Submission) check() error {
	switch {
	case len(s.To) == 0:
		return errors.New("no recipient")
	case !s.nullSender() && !PlainAddress(s.From.User):
		return fmt.Errorf("sender %.200q: %w", s.From.User, ErrNotPlain)
	case strings.HasPrefix(s.Header, "\n") || strings.Contains(s.Header, "\n\n"):
		return fmt.Errorf("header %.200q has an empty line", s.Header)
	}
	for _, r := range s.To {
		if !PlainAddress(r.User) {
			return fmt.Errorf("recipient %.200q: %w", r.User, ErrNotPlain)
		}
	}
	if strings.ContainsFunc(s.By, isControl) {
		return fmt.Errorf("%.200q has a control character", s.By)
	}
	return nil
}

func (s *Submission) nullSender() bool {
	return s.From.Channel == "error" || s.From.User == "<>"
}

// envelope is the lines that tell the router what a header does not.
func (s *Submission) envelope() []string {
	lines := []string{"external", "rcvdfrom STDIN (" + s.By + ")"}
	if DSNValue(s.EnvID) {
		lines = append(lines, "envid "+s.EnvID)
	}
	if DSNValue(s.Ret) {
		lines = append(lines, "notaryret "+s.Ret)
	}
	if s.nullSender() {
		lines = append(lines, "channel error")
	} else {
		lines = append(lines, "from "+bracketed(s.From.User))
	}
	for _, r := range s.To {
		if words := dsnWords(r.DSN, "NOTIFY", "ORCPT", "BY"); words != "" {
			lines = append(lines, "todsn"+words)
		}
		lines = append(lines, "to "+bracketed(r.User))
	}
	return append(lines, "env-end")
}

// ErrNotPlain is the error of a submission for an address that the router must
// not get from us.
var ErrNotPlain = errors.New("not a plain mail address")

// PlainAddress reports whether the router may be given an address again: it is
// one mailbox, with or without a domain and angle brackets, and no part of it
// can be read as a program (|command), a file (/path), an :include: list, a
// comment, a group, a source route or a second address. The privilege that such
// an address had when it was first routed is not what it would get now.
//
// A local part is words of letters, digits, bytes above 127 and _-+=#$&'*?^{},
// which may have . and ~ behind their first byte, with one of !%/ between them.
// Within double quotes a comma may be behind too, and a blank or an escaped
// quote or backslash between.
func PlainAddress(address string) bool {
	if inner, ok := strings.CutPrefix(address, "<"); ok {
		if address, ok = strings.CutSuffix(inner, ">"); !ok {
			return false
		}
	}
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return plainLocalPart(address)
	}
	return plainLocalPart(address[:at]) && plainDomain(address[at+1:])
}

func plainLocalPart(s string) bool {
	behind, between := ".~", "!%/"
	if strings.HasPrefix(s, `"`) {
		var ok bool
		if s, ok = cutQuotes(s); !ok {
			return false
		}
		between += ` "\`
		behind += ","
	}
	start := true // of a word
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isLetter(c), isDigit(c), c >= 0x80, strings.IndexByte("_-+=#$&'*?^{}", c) >= 0:
			start = false
		case start:
			return false
		case strings.IndexByte(behind, c) >= 0:
		case strings.IndexByte(between, c) >= 0:
			start = true
		default:
			return false
		}
	}
	return !start
}

// plainDomain accepts a name and an address literal, [192.0.2.1].
func plainDomain(s string) bool {
	others := ".-_"
	if literal, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(literal, "]"); !ok {
			return false
		}
		others = ".-:"
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !isLetter(c) && !isDigit(c) && c < 0x80 && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != ""
}

// cutQuotes returns what a quoted string says (RFC 5322 section 3.2.4), with its
// backslashes resolved. It is not ok if s is none, from its first byte to its
// last.
func cutQuotes(s string) (text string, ok bool) {
	b := make([]byte, 0, len(s))
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return string(b), i == len(s)-1
		case '\\':
			if i++; i == len(s) {
				return "", false
			}
		}
		b = append(b, s[i])
	}
	return "", false
}

// bracketed is an address in angle brackets, which some have already.
func bracketed(address string) string {
	if strings.HasPrefix(address, "<") && strings.HasSuffix(address, ">") {
		return address
	}
	return "<" + address + ">"
}

// dsnWords are those KEY=value words of an N line, each with a blank before it.
func dsnWords(dsn string, keys ...string) string {
	var words strings.Builder
	for _, key := range keys {
		if value, ok := DSNWord(dsn, key); ok {
			words.WriteString(" " + key + "=" + value)
		}
	}
	return words.String()
}

// Write makes a file of the submission in the postoffice's public/, complete
// and on disk, under a name made of pattern as os.CreateTemp does. After an
// error there is none.
func (s *Submission) Write(postoffice, pattern string, body io.Reader) (file string, err error) {
	front, err := s.Front()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Join(postoffice, "public"), pattern)
	if err != nil {
		return "", fmt.Errorf("write submission: %w", err)
	}
	w := bufio.NewWriterSize(f, 64<<10)
	_, _ = w.Write(front) // the error stays
	if _, err = io.Copy(w, body); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write submission: %w", err)
	}
	return f.Name(), nil
}

// Router is where a router looks for messages.
type Router struct {
	Postoffice string
	Levels     int    // 1 where router/ has letter directories (ROUTERDIRHASH), else 0
	Notify     string // socket of a router that listens for names (ROUTERNOTIFY), or ""
}

// Give renames a file that is complete and on disk into router/, under the
// number of its inode, announces it, and returns the name below router/. A
// letter directory that is not there is done without. Nothing is overwritten:
// everybody may make files in router/, and where one has the name of ours, ours
// gets a number that nobody can know before. An error together with a name says
// that the router has it, but that it may not outlive a crash.
func (r Router) Give(file string) (name string, err error) {
	name, err = r.give(file)
	if err != nil {
		err = fmt.Errorf("give %s to the router: %w", file, err)
	}
	if name != "" && r.Notify != "" {
		// Nobody need listen: the router looks for itself too.
		_ = Announce(r.Notify, "router "+name)
	}
	return name, err
}

func (r Router) give(file string) (string, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	name, err := r.place(file, inode)
	if errors.Is(err, fs.ErrExist) {
		name, err = r.place(file, unusedNumber())
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.Postoffice, "router", name)
	if now, err := os.Lstat(path); err == nil && now.Sys().(*syscall.Stat_t).Ino != inode {
		// The file was replaced before it was renamed: this one is not ours.
		return "", errors.Join(errors.New("it was replaced by another file"), os.Remove(path))
	}
	return name, syncdir.Sync(filepath.Dir(path))
}

// place renames a file into router/ under a number.
func (r Router) place(file string, number uint64) (name string, err error) {
	router := filepath.Join(r.Postoffice, "router")
	hash, base := HashDir(number, min(r.Levels, 1)), strconv.FormatUint(number, 10)
	err = move(file, filepath.Join(router, hash, base))
	if hash != "" && errors.Is(err, fs.ErrNotExist) {
		hash = ""
		err = move(file, filepath.Join(router, base))
	}
	return hash + base, err
}

// unusedNumber is a random number that is no inode's: old programs submit a
// file under its inode and overwrite what has that name.
func unusedNumber() uint64 { return 1<<62 | rand.Uint64N(1<<62) }
