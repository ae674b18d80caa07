package state

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// Name is the file's name below $POSTOFFICE.
const Name = ".scheduler.state"

// bytesPerLine is about how long a line is, and maxReserved bounds the room that is made for
// recipients before the first line is read.
const (
	bytesPerLine = 60
	maxReserved  = 1 << 22
)

// readBuffer is how much of the file is read at once.
const readBuffer = 1 << 20

// ReadFile reads a file. Together with an error, it returns what it could read. A
// file that does not exist is an empty one.
func ReadFile(path string) (*Table, error) {
	f, info, err := postoffice.OpenOwn(path, unix.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return newTable(0), nil
	case err != nil:
		return newTable(0), fmt.Errorf("saved state: %w", err)
	}
	defer f.Close()
	t := newTable(int(min(info.Size()/bytesPerLine, maxReserved)))
	if err := t.read(f); err != nil {
		return t, fmt.Errorf("reading the saved state: %w", err)
	}
	return t, nil
}

// section is what follows a line with a version.
type section struct {
	table   *Table
	known   bool              // its version is ours
	numbers map[uint32]uint32 // of its diagnostics, to indexes from 1
}

// read reads a file. A last line without its end is skipped.
func (t *Table) read(from io.Reader) error {
	in := bufio.NewReaderSize(from, readBuffer)
	s := section{table: t}
	for {
		line, err := readLine(in)
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if v, ok := bytes.CutPrefix(line, []byte(header)); ok {
			s.known, s.numbers = string(v) == version, make(map[uint32]uint32)
		} else if line == nil {
			t.Skipped++
		} else if s.known {
			s.readLine(line)
		}
	}
}

// readLine returns the next line without its end, valid until the next call; nil
// if it is too long. With an error, it is a line without an end.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err == nil && len(line) <= maxLine {
		return line[:len(line)-1], nil
	}
	for err == bufio.ErrBufferFull {
		_, err = in.ReadSlice('\n')
	}
	if err != nil {
		return line, err
	}
	return nil, nil
}

// readLine reads one line of a section.
func (s *section) readLine(line []byte) {
	if len(line) < 2 || line[1] != ' ' {
		s.table.Skipped++
		return
	}
	f := fields{b: line[1:]}
	switch t := s.table; line[0] {
	case 'd':
		s.readDiagnostic(&f)
	case 'r':
		s.readRecipient(&f)
	case 't':
		s.readThread(&f)
	case 'b':
		var r scheduler.SavedRate
		if f.rate(&r); !f.bad {
			t.rates[r.RateKey] = r
		}
	case 'o':
		o := scheduler.SavedOrder{Ordered: scheduler.Ordered{Targets: make([]scheduler.Target, 1)}}
		if f.order(&o); !f.bad {
			t.orders = append(t.orders, o)
		}
	}
	if f.bad {
		s.table.Skipped++
	}
}

func (s *section) readDiagnostic(f *fields) {
	var number uint32
	var d diagnostic
	if f.diagnostic(&number, &d); f.bad {
		return
	}
	s.table.diagnostics = append(s.table.diagnostics, d)
	s.numbers[number] = uint32(len(s.table.diagnostics))
}

func (s *section) readRecipient(f *fields) {
	var r scheduler.SavedRecipient
	var report uint32
	if f.recipient(&r, &report); f.bad {
		return
	}
	t := s.table
	t.entries = append(t.entries, entry{
		before: t.messages[uint64(r.Message)], offset: uint32(r.Offset),
		modifiedAt: uint32(r.ModifiedAt), nextAt: uint32(r.NextAt), fedAt: uint32(r.FedAt),
		diagnostic: s.numbers[report], attempts: uint16(r.Attempts), step: uint8(r.Step),
		destinationFailed: r.DestinationFailed, inRetryStep: r.InRetryStep,
	})
	t.messages[uint64(r.Message)] = uint32(len(t.entries))
}

func (s *section) readThread(f *fields) {
	var t scheduler.SavedThread
	var report uint32
	if f.thread(&t, &report); f.bad {
		return
	}
	if number := s.numbers[report]; number != 0 {
		d := &s.table.diagnostics[number-1]
		t.Notary, t.Text = d.notary, d.text
	}
	if len(f.b) > 0 {
		shaped, rest := t, fields{b: f.b}
		if rest.shaping(&shaped); !rest.bad {
			t = shaped
		}
	}
	s.table.threads[[2]string{t.Channel, t.Host}] = t
}
