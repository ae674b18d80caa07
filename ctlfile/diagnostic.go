package ctlfile

// Diagnostics: the d lines, which agents and the scheduler append.

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/text"
)

// MaxText bounds the length in bytes of a d line's notary, and of its text. What is left out is the
// end of a notary, and the middle of a text.
const MaxText = 1000

// maxDiagnostics is how many bytes the notaries of all recipients may have in a file, and their texts, so
// that no replies of servers make the file longer than MaxSize.
const maxDiagnostics = 48 << 20

// minText is the least that a text may have: SentText ends with what a restart needs.
const minText = 100

// maxText is MaxText for a recipient of the file.
func (f *File) maxText() int {
	return max(minText, min(MaxText, maxDiagnostics/max(1, len(f.Recipients))))
}

// Diagnostic is a d line: what became of a recipient.
type Diagnostic struct {
	Offset    int64 // of the d line itself
	Tag       Tag   // Open, or Delivered when the sender has been told
	Recipient int64 // the recipient's offset, 0 if unknown
	Header    int64 // the recipient's Header, -1 or 0 if unknown
	N         int64 // offset of the recipient's N line, -1 if unknown
	At        time.Time
	// Notary has up to six fields separated by 0x01: final recipient, action, status,
	// diagnostic code, remote host, agent. It is "" if there is none.
	Notary string
	Text   string // CR stands for a newline
}

// diagnostic parses a d line. No error in it makes the file malformed: many programs
// write d lines, and the mail matters more than the diagnostics. A field that is not a
// number counts as unknown.
func (p *parser) diagnostic(at int, tag Tag, value string) {
	if tag != Open && tag != Delivered {
		return
	}
	numbers, message, _ := strings.Cut(value, "\t")
	d := Diagnostic{Offset: int64(at), Tag: tag, Recipient: 0, Header: -1, N: -1}
	n, rest := cutNumber(numbers)
	if 0 < n && n < int64(at) {
		d.Recipient = n
	}
	if n, rest = cutNumber(rest); 0 <= n && n < int64(at) {
		d.Header = n
	}
	n, rest = cutNumber(rest)
	d.N = p.file.nLine(n)
	_, rest = cutNumber(rest)
	seconds, extra := cutNumber(rest)
	if seconds > 0 {
		d.At = time.Unix(seconds, 0)
	}
	notary, text, complete := strings.Cut(message, "\t")
	switch {
	case !complete:
		// A crash truncated the line, and the next append added the newline. The rest
		// of the notary is unknown, so the beginning is used only as text.
		d.Text = notary
	case extra != "" || seconds < 0 && rest != "":
		// The field before the notary is not a time: this is another format.
		d.Text = text
	default:
		d.Notary, d.Text = notary, text
	}
	p.file.Diagnostics = append(p.file.Diagnostics, d)
}

// cutNumber cuts s at the first colon and returns the number before it and the rest. n
// is -1 if there is no number.
func cutNumber(s string) (n int64, rest string) {
	digits, rest, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(strings.Trim(digits, " "), 10, 64)
	if err != nil {
		return -1, rest
	}
	return n, rest
}

// nLine returns the offset of the N line that a d line refers to, or -1. Agents
// write that offset; the old scheduler wrote the offset of its value, two bytes
// later.
func (f *File) nLine(offset int64) int64 {
	i := sort.Search(len(f.Recipients), func(i int) bool { return f.Recipients[i].Offset >= offset }) - 1
	if i >= 0 {
		if n := f.Recipients[i].N; n >= 0 && (n == offset || n+2 == offset) {
			return n
		}
	}
	return -1
}

// appendTo appends the d line to b in the form that agents write: N is the
// offset of the letter. A Tag other than Delivered is written as Open. In Notary
// and Text a line end becomes CR, TAB and NUL become a space, and both are cut
// to a length, but for the first three fields of Notary: a restart needs them.
func (d *Diagnostic) appendTo(b []byte, length int) []byte {
	tag := Open
	if d.Tag == Delivered {
		tag = Delivered
	}
	b = append(b, 'd', byte(tag))
	b = strconv.AppendInt(b, d.Recipient, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, d.Header, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, d.N, 10)
	b = append(b, "::"...)
	b = strconv.AppendInt(b, max(0, d.At.Unix()), 10)
	b = append(b, '\t')
	first := 0
	for range 3 {
		first += strings.IndexByte(d.Notary[first:], 1) + 1
	}
	b = appendText(b, text.Cut(d.Notary, max(length, first)))
	b = append(b, '\t')
	return append(appendText(b, text.CutMiddle(d.Text, length)), '\n')
}

func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\n':
			b = append(b, '\r')
		case '\t', 0:
			b = append(b, ' ')
		default:
			b = append(b, c)
		}
	}
	return b
}

// AppendDiagnostic appends d lines to the file and returns when they are on disk.
// It writes all of them at once, so that lines of other processes do not come between
// them. After a short write, it removes the incomplete text and returns ENOSPC. It also
// removes lines that could not be made durable: their writer then does not act on them, so
// they must not count later.
// fd is as for Swap and must not be used by another goroutine during the call.
// The Offset of the diagnostics is ignored.
func (f *File) AppendDiagnostic(fd int, diagnostics ...Diagnostic) error {
	return f.AppendDiagnosticWith(postoffice.SyncData, fd, diagnostics...)
}

// AppendDiagnosticWith is AppendDiagnostic with a function that makes the file
// durable. Such a function may do so for several files together.
func (f *File) AppendDiagnosticWith(sync func(fd int) error, fd int, diagnostics ...Diagnostic) error {
	if len(diagnostics) == 0 {
		return nil
	}
	n, err := appendLines(fd, f.maxText(), diagnostics)
	if err == nil {
		if err = sync(fd); err != nil {
			err = errors.Join(err, undoAppend(fd, n))
		}
	}
	if err != nil {
		return fmt.Errorf("append diagnostics: %w", err)
	}
	return nil
}

// appendLines returns how many bytes it has appended.
func appendLines(fd, length int, diagnostics []Diagnostic) (n int, err error) {
	torn, err := lastLineIsTorn(fd)
	if err != nil {
		return 0, err
	}
	var b []byte
	if torn {
		// End the torn line with blanks, not with a newline alone: if its writer
		// has completed it by now, a newline alone would be an empty line, which
		// is malformed. A line that begins with a blank is ignored.
		b = append(b, "  \n"...)
	}
	for i := range diagnostics {
		b = diagnostics[i].appendTo(b, length)
	}
	return len(b), appendOnce(fd, b)
}

// lastLineIsTorn reports whether the last line has no newline: a crash truncated it,
// or another process is writing it now.
func lastLineIsTorn(fd int) (bool, error) {
	size, err := fileSize(fd)
	if err != nil || size == 0 {
		return false, err
	}
	var last [1]byte
	_, err = postoffice.PreadFull(fd, last[:], size-1)
	return last[0] != '\n', err
}

// appendOnce appends b in one write, or nothing.
func appendOnce(fd int, b []byte) error {
	n, err := postoffice.Append(fd, b)
	switch {
	case n == len(b):
		return err
	case n > 0:
		return errors.Join(errShortWrite(n, len(b)), err, undoAppend(fd, n))
	}
	return err
}

// undoAppend removes the n bytes that were just appended through fd, unless another
// process has appended to the file after them.
func undoAppend(fd, n int) error {
	end, err := postoffice.Seek(fd, 0, io.SeekCurrent)
	if err != nil {
		return err
	}
	size, err := fileSize(fd)
	if err != nil {
		return err
	}
	if size != end {
		return errors.New("the text stays, because another line follows it")
	}
	return postoffice.Truncate(fd, end-int64(n))
}

func fileSize(fd int) (int64, error) {
	var st unix.Stat_t
	err := postoffice.Fstat(fd, &st)
	return st.Size, err
}
