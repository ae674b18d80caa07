package ctlfile

import (
	"iter"
	"sort"
	"strconv"
	"strings"
)

// PID is the process that holds the recipient's lock; 0 when the field is
// blank, zero, unreadable or not there. MaxPID stands for every greater pid.
func (r *Recipient) PID() int {
	n, err := strconv.ParseUint(r.Lock, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// Find returns the index of the recipient at an offset, or -1.
func (f *File) Find(offset int64) int {
	i := sort.Search(len(f.Recipients), func(i int) bool { return f.Recipients[i].Offset >= offset })
	if i < len(f.Recipients) && f.Recipients[i].Offset == offset {
		return i
	}
	return -1
}

// Open reports whether recipient i is to be worked on now: it is open and, as
// one of several alternatives (X), all before it have failed and none behind
// it is delivered or locked. So alternatives are tried one at a time in file
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

// Done reports whether nothing is left to do for recipient i: it is delivered
// or failed, or another alternative of its class is delivered.
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

// Headers is the text of recipient i's header block, each line with its end;
// "" without a block.
func (f *File) Headers(i int) string {
	if r := &f.Recipients[i]; r.Header >= 0 {
		return f.text[r.Header:r.HeaderEnd]
	}
	return ""
}

// TriggerHost is the host that a T line's value names, in lower case: the
// word before the first blank. The rest says who asked.
func TriggerHost(value string) string {
	if end := strings.IndexAny(value, " \t"); end >= 0 {
		value = value[:end]
	}
	return lower(value)
}

// Lines yields every line of the file, with its offset and without its line
// end; a block is one line. A torn last line comes as it is.
func (f *File) Lines() iter.Seq2[int64, string] {
	return func(yield func(int64, string) bool) {
		for at := 0; at < len(f.text); {
			next, _ := lineEnd(f.text, at)
			if next < 0 {
				yield(int64(at), f.text[at:])
				return
			}
			if !yield(int64(at), f.text[at:next-1]) {
				return
			}
			at = next
		}
	}
}
