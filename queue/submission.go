package queue

// Submissions: messages for the router.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Submission is a message as the router finds it in $POSTOFFICE/router: the lines of
// the envelope, the header, an empty line and the body.
//
//	external
//	rcvdfrom STDIN (scheduler@mx.example.org)
//	identinfo SOURCE=192.0.2.0/24 CLIENT=192.0.2.7
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
// "external" makes the router give the recipients no privilege, whoever owns the
// file. The file must keep its owner: the router accepts a from line, or
// "channel error" in its place for the null sender, only from a user whom it
// trusts. The format has no line for a separate error address: error messages go
// to the sender.
type Submission struct {
	By         string          // who submits the message, "scheduler@mx.example.org"
	From       ctlfile.Address // the channel "error" is the null sender
	EnvID, Ret string          // envelope identity (xtext), and FULL or HDRS; "" for none
	To         []*ctlfile.Recipient
	Header     string // complete lines, none of them empty
	Source     string // of an S line (ctlfile.ParseSource); "" for none

	// Only an SMTP server sets these. The router writes the Received field from them.
	RcvdFrom string // replaces STDIN and By: "mx.example.org ([192.0.2.1])"
	With     string // protocol: "ESMTPS"; "" for none
	BodyType string // "8BITMIME"; "" for none
}

// MaxUserRecipients is how many recipients the router takes in a submission of a user whom it does
// not trust. When those of a minute are more, the next ones wait until it is over.
const MaxUserRecipients = 20000

// Resubmissions returns submissions for some recipients, given by index. A
// submission can have only one sender, header, envelope identity and RET, so
// there is one for each combination of these. The caller sets By.
func Resubmissions(f *ctlfile.File, recipients []int) []*Submission {
	type key struct {
		from       ctlfile.Address
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
			s = &Submission{From: k.from, EnvID: k.envID, Ret: k.ret, Header: f.Headers(i), Source: f.Source}
			made[k] = s
			list = append(list, s)
		}
		s.To = append(s.To, r)
	}
	return list
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
	for _, text := range []string{s.By, s.RcvdFrom, s.With, s.BodyType, s.Source} {
		if strings.ContainsFunc(text, ctlfile.IsControl) {
			return fmt.Errorf("%.200q has a control character", text)
		}
	}
	return nil
}

func (s *Submission) nullSender() bool {
	return s.From.Channel == "error" || s.From.User == "<>"
}

// Envelope returns the lines of the envelope with env-end. It fails for what the router
// would misread, such as an address that is not a PlainAddress or an empty line in the
// header. An ENVID, RET or N word that cannot be part of a line is left out, because the
// mail matters more than its parameters.
func (s *Submission) Envelope() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("write submission: %w", err)
	}
	lines := []string{"external"}
	if s.RcvdFrom != "" {
		lines = append(lines, "rcvdfrom "+s.RcvdFrom)
	} else {
		lines = append(lines, "rcvdfrom STDIN ("+s.By+")")
	}
	if s.BodyType != "" {
		lines = append(lines, "bodytype "+s.BodyType)
	}
	if s.With != "" {
		lines = append(lines, "with "+s.With)
	}
	if s.Source != "" {
		lines = append(lines, "identinfo "+s.Source)
	}
	if ctlfile.DSNValue(s.EnvID) {
		lines = append(lines, "envid "+s.EnvID)
	}
	if ctlfile.DSNValue(s.Ret) {
		lines = append(lines, "notaryret "+s.Ret)
	}
	if s.nullSender() {
		lines = append(lines, "channel error")
	} else {
		lines = append(lines, "from "+bracketed(s.From.User))
	}
	for _, r := range s.To {
		if words := parameters(r.DSN); words != "" {
			lines = append(lines, "todsn "+words)
		}
		lines = append(lines, "to "+bracketed(r.User))
	}
	return []byte(strings.Join(append(lines, "env-end\n"), "\n")), nil
}

// bracketed puts an address in angle brackets unless it already has them.
func bracketed(address string) string {
	if strings.HasPrefix(address, "<") && strings.HasSuffix(address, ">") {
		return address
	}
	return "<" + address + ">"
}

// Encode writes the submission with its body. Nothing is written if the router
// would misread it.
func (s *Submission) Encode(to io.Writer, body io.Reader) error {
	envelope, err := s.Envelope()
	if err != nil {
		return err
	}
	header := s.Header
	if header != "" && !strings.HasSuffix(header, "\n") {
		header += "\n"
	}
	w := bufio.NewWriterSize(to, 64<<10)
	_, _ = w.Write(append(envelope, header+"\n"...)) // w keeps the error
	if _, err = io.Copy(w, body); err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write submission: %w", err)
	}
	return nil
}

// Write writes the submission to a new file made by postoffice.CreateTemp with
// prefix, and syncs it. After an error there is no file.
func (s *Submission) Write(office, prefix string, body io.Reader) (file string, err error) {
	f, err := postoffice.CreateTemp(office, prefix)
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
		_ = postoffice.RemovePath(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// Router says where a router looks for messages.
type Router struct {
	Postoffice string
	Levels     int    // 1 if router/ has hash directories (ROUTERDIRHASH), else 0
	Notify     string // socket of a router that listens for names (ROUTERNOTIFY), as ZMailer's does, or ""
}

// Give renames a complete and synced file into router/, under the number of its inode,
// announces it, and returns its name below router/. If the hash directory is
// missing, the file goes into router/ itself. Give overwrites nothing: if somebody has
// created a file of that name, which any user may do, it uses a random number. If the name
// cannot be made durable, Give takes the file back and removes it. An error together with a
// name says that it was too late for that: the router has the file, which may not survive a
// crash.
func (r Router) Give(file string) (name string, err error) {
	names, errs := r.GiveAll([]string{file}, syncEach)
	return names[0], errs[0]
}

func syncEach(dirs []*postoffice.File) error {
	for _, dir := range dirs {
		if err := dir.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// GiveAll gives several complete files to the router, as Give does. After renaming
// them it calls sync once with their directories in router/, which makes the
// names durable. Both results are in the order of files.
func (r Router) GiveAll(files []string, sync func(dirs []*postoffice.File) error) (names []string, errs []error) {
	names, errs = make([]string, len(files)), make([]error, len(files))
	inodes := make([]uint64, len(files))
	var dirs openDirs
	defer dirs.close()
	for i, file := range files {
		names[i], inodes[i], errs[i] = r.give(file, &dirs)
	}
	var notDurable error
	if len(dirs) > 0 {
		notDurable = sync(dirs)
	}
	for i, file := range files {
		if names[i] != "" && notDurable != nil {
			errs[i] = notDurable
			if r.takeBack(names[i], inodes[i]) {
				names[i] = ""
			}
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("give %s to the router: %w", file, errs[i])
		}
		if names[i] != "" && r.Notify != "" {
			// An error does not matter, because the router scans router/ anyway.
			_ = Announce(r.Notify, "router "+names[i])
		}
	}
	return names, errs
}

// takeBack removes a file of router/ that the router has not taken yet.
func (r Router) takeBack(name string, inode uint64) bool {
	path := filepath.Join(r.Postoffice, "router", name)
	info, err := postoffice.Lstat(path)
	return err == nil && info.Sys().(*syscall.Stat_t).Ino == inode && postoffice.RemovePath(path) == nil
}

// openDirs are directories into which files are renamed. They are open before that: afterwards, when
// the router may have the files, only the disk can keep their names from becoming durable.
type openDirs []*postoffice.File

func (d *openDirs) open(path string) error {
	if slices.ContainsFunc(*d, func(dir *postoffice.File) bool { return dir.Name() == path }) {
		return nil
	}
	dir, err := postoffice.OpenDirFile(path)
	if err == nil {
		*d = append(*d, dir)
	}
	return err
}

func (d *openDirs) close() {
	for _, dir := range *d {
		_ = dir.Close()
	}
}

func (r Router) give(file string, dirs *openDirs) (name string, inode uint64, err error) {
	info, err := postoffice.Lstat(file)
	if err != nil {
		return "", 0, err
	}
	inode = info.Sys().(*syscall.Stat_t).Ino
	name, err = r.place(file, inode, dirs)
	if errors.Is(err, fs.ErrExist) {
		name, err = r.place(file, unusedNumber(), dirs)
	}
	if err != nil {
		return "", 0, err
	}
	path := filepath.Join(r.Postoffice, "router", name)
	if now, err := postoffice.Lstat(path); err == nil && now.Sys().(*syscall.Stat_t).Ino != inode {
		// Another file replaced it before the rename.
		return "", 0, errors.Join(postoffice.ErrReplaced, postoffice.RemovePath(path))
	}
	return name, inode, nil
}

// place renames a file into router/ under a number.
func (r Router) place(file string, number uint64, dirs *openDirs) (name string, err error) {
	router := filepath.Join(r.Postoffice, "router")
	hash, base := ctlfile.HashDir(number, min(r.Levels, 1)), strconv.FormatUint(number, 10)
	if trusted, _ := postoffice.IsTrustedDir(filepath.Join(router, hash)); !trusted {
		hash = ""
	}
	dir := filepath.Join(router, hash)
	if err = dirs.open(dir); err != nil {
		return "", err
	}
	return hash + base, postoffice.Publish(file, filepath.Join(dir, base))
}

// unusedNumber returns a random number that is greater than any inode number. Old
// programs name a file after its inode, and would overwrite one of that name.
func unusedNumber() uint64 { return 1<<62 | rand.Uint64N(1<<62) }
