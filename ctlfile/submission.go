package ctlfile

// Submissions: messages that are given to the router again.

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
// the file. The file keeps the owner who wrote it: the router believes a from
// line only in a file of a user whom it trusts, and so "channel error", which
// stands in place of that line for the null sender. The form has no line for
// another address of error messages: they go to the sender.
type Submission struct {
	By         string  // who submits it, "scheduler@mx.example.org"
	From       Address // the channel "error" is the null sender
	EnvID, Ret string  // envelope identity (xtext), and FULL or HDRS; "" for none
	To         []*Recipient
	Header     string // lines without an empty one between them
}

// Resubmissions returns submissions for some recipients, given by index. A
// submission can have only one sender, header, envelope identity and RET, so
// there is one for each combination of these. The caller sets By.
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

// front is everything of a submission before its body. It fails for what the
// router would read as something else: an address that is not a PlainAddress, an
// empty line in the header. An ENVID, RET or N word that cannot stand in a line
// is left out, because the mail is worth more than its parameters.
func (s *Submission) front() ([]byte, error) {
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

// envelope is the lines before the header.
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

// bracketed is an address in angle brackets, which some addresses have already.
func bracketed(address string) string {
	if strings.HasPrefix(address, "<") && strings.HasSuffix(address, ">") {
		return address
	}
	return "<" + address + ">"
}

// dsnWords returns the words of an N line with these keys, each with a blank
// before it.
func dsnWords(dsn string, keys ...string) string {
	var words strings.Builder
	for _, key := range keys {
		if value, ok := DSNWord(dsn, key); ok {
			words.WriteString(" " + key + "=" + value)
		}
	}
	return words.String()
}

// Encode writes the submission with its body. Nothing is written if the router
// would read it as something else.
func (s *Submission) Encode(to io.Writer, body io.Reader) error {
	front, err := s.front()
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 64<<10)
	_, _ = w.Write(front) // w keeps the error
	if _, err = io.Copy(w, body); err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write submission: %w", err)
	}
	return nil
}

// Write writes the submission into a new file in the postoffice's public/ and
// syncs it. pattern is that of os.CreateTemp. After an error there is no file.
func (s *Submission) Write(postoffice, pattern string, body io.Reader) (file string, err error) {
	f, err := os.CreateTemp(filepath.Join(postoffice, "public"), pattern)
	if err != nil {
		return "", fmt.Errorf("write submission: %w", err)
	}
	if err = s.Encode(f, body); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// Router says where a router looks for messages.
type Router struct {
	Postoffice string
	Levels     int    // 1 where router/ has letter directories (ROUTERDIRHASH), else 0
	Notify     string // socket of a router that listens for names (ROUTERNOTIFY), or ""
}

// Give renames a file that is complete and on disk into router/, under the
// number of its inode, announces it, and returns its name below router/. If the
// letter directory is missing, the file goes into router/ itself. Give
// overwrites nothing: every user may make files in router/, and if one has the
// name already, the file gets a random number. An error together with a name
// says that the router has the file, but that it may not survive a crash.
func (r Router) Give(file string) (name string, err error) {
	name, err = r.give(file)
	if err != nil {
		err = fmt.Errorf("give %s to the router: %w", file, err)
	}
	if name != "" && r.Notify != "" {
		// An error does not matter: the router looks into router/ by itself.
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
		// Another file was put in its place before it was renamed.
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

// unusedNumber is a random number that no inode has. Old programs name a file
// after its inode and overwrite the file that has that name.
func unusedNumber() uint64 { return 1<<62 | rand.Uint64N(1<<62) }
