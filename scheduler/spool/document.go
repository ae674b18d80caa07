package spool

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// document is a control file that was read and may be changed in place.
type document struct {
	at   int // directory that path is below
	path string
	st   unix.Stat_t // when it was read
	file *ctlfile.File
	fd   int // open for writing, or -1; see writable
}

// errGone says that there is no regular file of that name.
var errGone = errors.New("no such file")

// errChanged says that somebody else changed the file between our reading and
// our writing. What was read is no longer true.
var errChanged = errors.New("changed while it was worked on")

// garbled is the error for a file that was read and cannot be understood.
type garbled struct{ reason string }

func (e *garbled) Error() string { return e.reason }

// load reads the control file at path. Opened with O_RDWR it can be written
// without another look. The buffer is used and, if it grew, replaced. The
// error is errGone, a *garbled or the system's; st is valid for a *garbled.
func load(at int, path string, flags int, buf *[]byte) (document, error) {
	d := document{at: at, path: path, fd: -1}
	fd, err := openFile(at, path, flags, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ELOOP, unix.ENXIO, unix.EISDIR:
		return d, errGone
	default:
		return d, fmt.Errorf("open: %w", err)
	}
	err = d.read(fd, buf)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		unix.Close(fd)
		return d, err
	}
	d.fd = fd
	return d, nil
}

func (d *document) read(fd int, buf *[]byte) error {
	if err := unix.Fstat(fd, &d.st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	switch {
	case !regular(&d.st):
		return errGone
	case d.st.Size == 0:
		return &garbled{"the file is empty"}
	case d.st.Size > ctlfile.MaxSize:
		return &garbled{fmt.Sprintf("a file of %d bytes is too large", d.st.Size)}
	}
	data, err := readWhole(fd, d.st.Size, *buf)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	*buf = data
	if d.file, err = ctlfile.Parse(data); err != nil {
		return &garbled{err.Error()}
	}
	return nil
}

func (d *document) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
		d.fd = -1
	}
}

// writable returns a descriptor of the very file that was read.
func (d *document) writable() (int, error) {
	if d.fd >= 0 {
		return d.fd, nil
	}
	fd, err := openFile(d.at, d.path, unix.O_RDWR, 0)
	if err != nil {
		return -1, fmt.Errorf("open for writing: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != d.st.Dev || st.Ino != d.st.Ino {
		unix.Close(fd)
		return -1, errChanged
	}
	d.fd = fd
	return fd, nil
}

// tag changes the tag of recipient i in the file and in memory.
func (d *document) tag(i int, to ctlfile.Tag) error {
	r := &d.file.Recipients[i]
	if r.Tag == to {
		return nil
	}
	fd, err := d.writable()
	if err != nil {
		return err
	}
	done, err := ctlfile.Swap(fd, r.Offset, r.Tag, to, 0)
	if err != nil {
		return err
	}
	if !done {
		return errChanged
	}
	r.Tag, r.Lock = to, ""
	return nil
}

// told tags d line i as one of which the sender was told or need not be.
func (d *document) told(i int) error {
	fd, err := d.writable()
	if err != nil {
		return err
	}
	line := &d.file.Diagnostics[i]
	if _, err := ctlfile.Swap(fd, line.Offset, ctlfile.Open, ctlfile.Delivered, 0); err != nil {
		return err
	}
	line.Tag = ctlfile.Delivered
	return nil
}

// settle brings the file to where it would be had nobody died: locks that are
// not held are cleared, a recipient that a d line says is done is done, and
// where one of an exclusive set is delivered nothing of it is left to do.
func (d *document) settle(held func(*ctlfile.Recipient) bool) error {
	said := outcomes(d.file)
	for i := range d.file.Recipients {
		r := &d.file.Recipients[i]
		if r.Tag != ctlfile.Open && (r.Tag != ctlfile.Locked || held(r)) {
			continue
		}
		to, ok := said[r.Offset]
		if !ok {
			to = ctlfile.Open
		}
		if err := d.tag(i, to); err != nil {
			return err
		}
	}
	return d.settleSets()
}

// settleSets ends the exclusive sets of which one recipient is delivered: the
// open ones are tagged with it, and of those that failed nobody need hear.
func (d *document) settleSets() error {
	delivered := deliveredSets(d.file)
	if len(delivered) == 0 {
		return nil
	}
	for i := range d.file.Recipients {
		r := &d.file.Recipients[i]
		if r.Tag == ctlfile.Open && delivered[r.Class] {
			if err := d.tag(i, ctlfile.Delivered); err != nil {
				return err
			}
		}
	}
	for i := range d.file.Diagnostics {
		line := &d.file.Diagnostics[i]
		if n := d.file.Find(line.Recipient); line.Tag == ctlfile.Open && n >= 0 &&
			d.file.Recipients[n].Tag == ctlfile.Failed && delivered[d.file.Recipients[n].Class] {
			if err := d.told(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// trim removes a last line that a crash cut short, lest the next one be
// appended to it.
func (d *document) trim() error {
	if d.file.Torn < 0 {
		return nil
	}
	fd, err := d.writable()
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, d.file.Torn); err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	return nil
}

// deliveredSets are the classes of X lines of which one is delivered.
func deliveredSets(f *ctlfile.File) map[int]bool {
	var sets map[int]bool
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Class > 0 && r.Tag == ctlfile.Delivered {
			if sets == nil {
				sets = map[int]bool{}
			}
			sets[r.Class] = true
		}
	}
	return sets
}

// outcomes are the tags that d lines say recipients have, by offset. The last
// line counts.
func outcomes(f *ctlfile.File) map[int64]ctlfile.Tag {
	var said map[int64]ctlfile.Tag
	for i := range f.Diagnostics {
		line := &f.Diagnostics[i]
		tag, ok := outcome(line.Notary)
		if !ok {
			continue
		}
		if said == nil {
			said = make(map[int64]ctlfile.Tag, len(f.Diagnostics))
		}
		said[line.Recipient] = tag
	}
	return said
}

// outcome is the tag of a recipient of which this was said. A delay, or a
// word that is none of RFC 3464's, settles nothing.
func outcome(notary string) (ctlfile.Tag, bool) {
	switch action(notary) {
	case failed:
		return ctlfile.Failed, true
	case delivered, relayed, expanded:
		return ctlfile.Delivered, true
	}
	return 0, false
}

// The delivery status actions (RFC 3464 section 2.3.3).
const (
	failed    = "failed"
	delayed   = "delayed"
	delivered = "delivered"
	relayed   = "relayed"
	expanded  = "expanded"
)

// action is the second field of a notary, cut to the word of RFC 3464 that it
// starts with; agents have put more behind it. "" is none of them.
func action(notary string) string {
	_, rest, _ := strings.Cut(notary, "\x01")
	field, _, _ := strings.Cut(rest, "\x01")
	for _, word := range [...]string{failed, delayed, delivered, relayed, expanded} {
		if len(field) >= len(word) && strings.EqualFold(field[:len(word)], word) {
			return word
		}
	}
	return ""
}

// owes reports whether the file has a d line of which the sender wants to
// hear and has not. While a set of alternatives is undecided its failures are
// nobody's business; final says that nothing is undecided any more.
func owes(f *ctlfile.File, final bool) bool {
	if f.NullSender {
		return false
	}
	for i := range f.Diagnostics {
		line := &f.Diagnostics[i]
		if line.Tag != ctlfile.Open {
			continue
		}
		n := f.Find(line.Recipient)
		if n < 0 {
			// Of whom it speaks nobody knows: the sender may.
			if ctlfile.NotifyFailure == tells(line.Notary, ctlfile.Failed) {
				return true
			}
			continue
		}
		r := &f.Recipients[n]
		if r.Notify.Wants(tells(line.Notary, r.Tag)) && (final || decided(f, r.Class)) {
			return true
		}
	}
	return false
}

// tells is the kind of news a d line is about a recipient with this tag. One
// who failed is news of failure also when the agent did not know the word for
// it: rather a notice too many than one lost.
func tells(notary string, tag ctlfile.Tag) ctlfile.Notify {
	switch action(notary) {
	case failed:
		return ctlfile.NotifyFailure
	case delayed:
		return ctlfile.NotifyDelay
	case delivered, relayed, expanded:
		return ctlfile.NotifySuccess
	}
	if tag == ctlfile.Failed {
		return ctlfile.NotifyFailure
	}
	return 0
}

// decided reports whether every recipient of an exclusive set has failed. An r
// line stands alone and always is.
func decided(f *ctlfile.File, class int) bool {
	if class == 0 {
		return true
	}
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Class == class && r.Tag != ctlfile.Failed {
			return false
		}
	}
	return true
}
