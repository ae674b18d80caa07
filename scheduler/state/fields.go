package state

// Fields: one description of each kind of line serves to write and to read it.

import (
	"bytes"
	"strconv"
)

// fields writes or reads the fields of a line, from left to right, each with a blank before
// it. After the first field that is not as it was written, bad is set.
type fields struct {
	writing bool
	b       []byte // what is written, or what is left to be read
	bad     bool
}

// next returns the next field, which has no blank.
func (f *fields) next() []byte {
	if len(f.b) < 2 || f.b[0] != ' ' {
		f.bad = true
		return nil
	}
	word := f.b[1:]
	if i := bytes.IndexByte(word, ' '); i >= 0 {
		word = word[:i]
	}
	f.b = f.b[1+len(word):]
	return word
}

func (f *fields) word(s *string) {
	if f.writing {
		f.b = append(append(f.b, ' '), *s...)
		return
	}
	*s = string(f.next())
}

// count is a number from 0 to most.
func count[T ~int | ~int64 | ~uint32 | ~uint64](f *fields, n *T, most uint64) {
	if f.writing {
		f.b = strconv.AppendUint(append(f.b, ' '), uint64(*n), 10)
		return
	}
	// Most of a file is numbers, so they are read in one pass.
	var x uint64
	digits := f.next()
	f.bad = f.bad || len(digits) == 0
	for _, c := range digits {
		digit := uint64(c - '0')
		if digit > 9 || x > most/10 || x*10 > most-digit {
			f.bad = true
			return
		}
		x = x*10 + digit
	}
	*n = T(x)
}

// quoted is a word in quotes, as in Go.
func (f *fields) quoted(s *string) {
	if f.writing {
		f.b = strconv.AppendQuote(append(f.b, ' '), *s)
		return
	}
	if f.bad || len(f.b) < 2 || f.b[0] != ' ' || f.b[1] != '"' {
		f.bad = true
		return
	}
	quoted, err := strconv.QuotedPrefix(string(f.b[1:]))
	if err != nil {
		f.bad = true
		return
	}
	f.b = f.b[1+len(quoted):]
	*s, err = strconv.Unquote(quoted)
	f.bad = f.bad || err != nil
}

// flag is d or "-". Letters that are not known are skipped.
func (f *fields) flag(d *bool) {
	if !f.writing {
		*d = bytes.IndexByte(f.next(), 'd') >= 0
		return
	}
	letters := "-"
	if *d {
		letters = "d"
	}
	f.word(&letters)
}
