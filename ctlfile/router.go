package ctlfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Submission is a message as the router takes it out of $POSTOFFICE/router:
// lines of envelope, the header, an empty line and the body.
//
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
// "channel error" in place of the from line is the null sender. The form has
// no line for an address of error messages: they go to the sender.
type Submission struct {
	By         string // who submits it, "scheduler@mx.example.org"
	From       Quad   // the channel "error" is the null sender
	EnvID, Ret string // envelope identity (xtext), and FULL or HDRS; "" for none
	To         []*Recipient
	Header     string // lines without an empty one between them
}

// Resubmissions makes submissions of some recipients, given by index: each
// sender, header, envelope identity and RET has one of its own, because no
// submission can have two. By is left to the caller.
func (f *File) Resubmissions(recipients []int) []*Submission {
	type key struct {
		from       Quad
		header     int64
		ret, envID string
	}
	var list []*Submission
	made := map[key]*Submission{}
	for _, i := range recipients {
		r := &f.Recipients[i]
		k := key{f.Senders[r.Sender].Quad, r.Header, r.Ret, r.EnvID}
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
// would read as something else: a line end in a word, an empty line in the
// header.
func (s *Submission) Front() ([]byte, error) {
	lines := s.envelope()
	for _, line := range lines {
		if err := checkLine(line); err != nil {
			return nil, fmt.Errorf("write submission: %w", err)
		}
	}
	switch {
	case len(s.To) == 0:
		return nil, errors.New("write submission: no recipient")
	case strings.HasPrefix(s.Header, "\n") || strings.Contains(s.Header, "\n\n"):
		return nil, fmt.Errorf("write submission: header %.200q has an empty line", s.Header)
	}
	header := s.Header
	if header != "" && !strings.HasSuffix(header, "\n") {
		header += "\n"
	}
	return []byte(strings.Join(lines, "\n") + "\n" + header + "\n"), nil
}

// envelope is the lines that tell the router what a header does not.
func (s *Submission) envelope() []string {
	lines := []string{"rcvdfrom STDIN (" + s.By + ")"}
	if s.EnvID != "" {
		lines = append(lines, "envid "+s.EnvID)
	}
	if s.Ret != "" {
		lines = append(lines, "notaryret "+s.Ret)
	}
	if s.From.Channel == "error" {
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
// letter directory that is not there is done without. Nothing is overwritten.
// An error together with a name says that the router has it, but that it may
// not outlive a crash.
func (r Router) Give(file string) (name string, err error) {
	name, err = giveRouter(r.Postoffice, r.Levels, file)
	if err != nil {
		err = fmt.Errorf("give %s to the router: %w", file, err)
	}
	if name != "" && r.Notify != "" {
		// Nobody need listen: the router looks for itself too.
		_ = Announce(r.Notify, "router "+name)
	}
	return name, err
}

func giveRouter(postoffice string, levels int, file string) (string, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	base := strconv.FormatUint(inode, 10)
	router := filepath.Join(postoffice, "router")
	hash := HashDir(inode, min(levels, 1))
	err = move(file, filepath.Join(router, hash, base))
	if hash != "" && errors.Is(err, fs.ErrNotExist) {
		hash = ""
		err = move(file, filepath.Join(router, base))
	}
	if err != nil {
		return "", err
	}
	return hash + base, syncDir(filepath.Join(router, hash))
}
