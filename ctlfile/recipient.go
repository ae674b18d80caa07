package ctlfile

// Recipients: the r and X lines of a control file.

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Recipient is an r or X line together with the N, R, n, O, H and D lines after it.
type Recipient struct {
	Offset int64  // of the letter; identifies the recipient
	Tag    Tag    // its state when the file was read
	Lock   string // the pid bytes without their blanks, unless they are torn; see PID
	Delays int    // delay notices that the sender has got: the delay field
	Class  int    // class number of an X line, from 1; 0 for an r line
	Address
	Sender int // index into File.Senders
	// Header and HeaderEnd bound the text of the recipient's m block, with the
	// last line end; both are -1 when no m block follows.
	Header, HeaderEnd int64
	N                 int64  // offset of its N line, -1 for none
	DSN               string // value of its N line
	Notify            Notify // from DSN, or the default
	Ret, EnvID        string // values of its R and n lines
	Origin            string // value of its O line; see ParseOrigin
}

// PID returns the process that holds the recipient's lock, or 0 if the field is
// blank, zero, not a number or missing. MaxPID also stands for every greater pid.
// A pid with blanks on both sides is not a number: a process was killed while it wrote
// its pid across the end of a page of the file. The digits that are there may be the pid
// of another process, perhaps one that never ends.
func (r *Recipient) PID() int {
	n, err := strconv.ParseUint(r.Lock, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// Originals returns the addresses that the recipient had before: what the sender
// gave (ORCPT) and what this host expanded (INRCPT). There is none if it was not
// renamed.
func (r *Recipient) Originals() (all []string) {
	for _, key := range [...]string{"ORCPT", "INRCPT"} {
		value, ok := DSNWord(r.DSN, key)
		if !ok {
			continue
		}
		_, address := DSNAddress(value)
		known := func(other string) bool { return strings.EqualFold(other, address) }
		if address != "" && !known(r.User) && !slices.ContainsFunc(all, known) {
			all = append(all, address)
		}
	}
	return all
}

// Find returns the index of the recipient at an offset, or -1.
func (f *File) Find(offset int64) int {
	i := sort.Search(len(f.Recipients), func(i int) bool { return f.Recipients[i].Offset >= offset })
	if i < len(f.Recipients) && f.Recipients[i].Offset == offset {
		return i
	}
	return -1
}

// Open reports whether an agent may work on recipient i now: its tag is Open and, if
// it is one of several alternatives (X), all earlier alternatives have failed and no
// later one is delivered or locked. So alternatives are tried one at a time in file
// order until the first success.
func (f *File) Open(i int) bool {
	r := &f.Recipients[i]
	if r.Tag != Open {
		return false
	}
	if r.Class == 0 {
		return true
	}
	for j := i - 1; j >= 0; j-- {
		if other := &f.Recipients[j]; other.Class == r.Class && other.Tag != Failed {
			return false
		}
	}
	for j := i + 1; j < len(f.Recipients); j++ {
		other := &f.Recipients[j]
		if other.Class == r.Class && (other.Tag == Delivered || other.Tag == Locked) {
			return false
		}
	}
	return true
}

// Done reports whether recipient i needs no more work: it is delivered or
// failed, or another alternative of its class is delivered.
func (f *File) Done(i int) bool {
	r := &f.Recipients[i]
	if r.Tag == Delivered || r.Tag == Failed {
		return true
	}
	if r.Class == 0 || r.Tag == Locked {
		return false
	}
	for j := range f.Recipients {
		if other := &f.Recipients[j]; other.Class == r.Class && other.Tag == Delivered {
			return true
		}
	}
	return false
}

// recipient parses an r or X line.
func (p *parser) recipient(at int, line string) *ParseError {
	f := p.file
	r := Recipient{
		Offset: int64(at), Tag: Tag(line[1]), Sender: len(f.Senders) - 1,
		Header: -1, HeaderEnd: -1, N: -1, Notify: NotifyFailure,
	}
	if !r.Tag.ofRecipient() {
		return p.malformed(at, "recipient with tag %q", r.Tag)
	}
	if r.Sender < 0 {
		return p.malformed(at, "recipient before any sender")
	}
	lock, rest, ok := f.Flags.cutFields(line[2:])
	if !ok {
		return p.malformed(at, "recipient line %.200q is too short", line)
	}
	r.Lock, r.Delays = lock, f.Flags.delays(line)
	reason := ""
	if line[0] == 'X' {
		if r.Class, rest, ok = cutClass(rest); !ok {
			return p.malformed(at, "alternative %.200q has no class number", line)
		}
	}
	if r.Address, reason = parseAddress(rest); reason != "" {
		return p.malformed(at, "recipient %.200q: %s", rest, reason)
	}
	if !r.routable() {
		return p.malformed(at, "recipient %.200q: %v", rest, errTooLong)
	}
	if len(f.Recipients) == 1 {
		p.reserve(at)
	}
	f.Recipients = append(f.Recipients, r)
	return nil
}

// cutFields cuts the pid and the delay field off the value of a recipient line, and
// returns the pid field and the rest. Without format flags, blanks or digits in the
// place of a field are taken for the field; so no channel may start with a digit.
func (flags Flags) cutFields(s string) (lock, rest string, ok bool) {
	if flags&HasPID != 0 || isPIDField(s) {
		if len(s) < pidWidth {
			return "", "", false
		}
		if s[0] == ' ' && s[pidWidth-1] == ' ' {
			lock = strings.TrimLeft(s[:pidWidth], " ") // torn
		} else {
			lock = strings.Trim(s[:pidWidth], " ")
		}
		s = s[pidWidth:]
	}
	if flags&HasDelay != 0 {
		if len(s) < delayWidth {
			return "", "", false
		}
		return lock, s[delayWidth:], true
	}
	// In the sample of the old manual, this field has fewer blanks than it is wide. The
	// first letters of the channel must not be cut off with it.
	for n := 0; n < delayWidth && s != "" && isBlankOrDigit(s[0]); n++ {
		s = s[1:]
	}
	return lock, s, true
}

// delays returns the delay field of a recipient line from which cutFields has cut the
// fields; 0 if there is none.
func (flags Flags) delays(line string) int {
	if flags&(HasPID|HasDelay) != HasPID|HasDelay {
		return 0
	}
	n, _ := strconv.Atoi(strings.Trim(line[delayAt:delayAt+delayWidth], " "))
	return max(0, n)
}

// cutClass cuts the class number off the value of an X line.
func cutClass(s string) (class int, rest string, ok bool) {
	digits, rest, _ := strings.Cut(skipBlanks(s), " ")
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), rest, err == nil && n > 0
}

// delivery parses an N, R, n or O line, which belongs to the recipient before it.
func (p *parser) delivery(at int, letter byte, value string) *ParseError {
	last := len(p.file.Recipients) - 1
	if last < 0 {
		return p.malformed(at, "%c line before any recipient", letter)
	}
	r := &p.file.Recipients[last]
	switch {
	case letter == 'R':
		r.Ret = value
	case letter == 'n':
		r.EnvID = value
	case letter == 'O':
		r.Origin = value
	case r.N < 0:
		r.N, r.DSN, r.Notify = int64(at), value, ParseNotify(value)
	}
	return nil
}

// header assigns an m block, whose text goes from start to end, to the recipients since
// the previous block.
func (p *parser) header(start, end int) {
	for ; p.withHeader < len(p.file.Recipients); p.withHeader++ {
		r := &p.file.Recipients[p.withHeader]
		r.Header, r.HeaderEnd = int64(start), int64(end)
	}
}
