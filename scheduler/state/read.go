package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

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
		if v, ok := parseHeader(line); ok {
			s.known, s.numbers = v == version, make(map[uint32]uint32)
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
	if string(line) == "n" {
		s.table.nodes = nil
		return
	}
	if len(line) < 2 || line[1] != ' ' {
		s.table.Skipped++
		return
	}
	var err error
	in := fields{rest: line[1:]}
	switch line[0] {
	case 'd':
		err = s.readDiagnostic(&in)
	case 'r':
		err = s.readRecipient(&in)
	case 't':
		err = s.readThread(&in)
	case 'b':
		err = s.readRate(&in)
	case 'n':
		err = s.readNodes(&in)
	}
	if err != nil {
		s.table.Skipped++
	}
}

func (s *section) readDiagnostic(in *fields) error {
	number := uint32(in.uint(math.MaxUint32))
	d := diagnostic{in.quoted(), in.quoted()}
	if in.bad {
		return errMalformed
	}
	s.table.diagnostics = append(s.table.diagnostics, d)
	s.numbers[number] = uint32(len(s.table.diagnostics))
	return nil
}

func (s *section) readNodes(in *fields) error {
	var nodes []string
	for len(in.rest) > 0 && !in.bad {
		nodes = append(nodes, in.quoted())
	}
	if in.bad {
		return errMalformed
	}
	s.table.nodes = nodes
	return nil
}

func (s *section) readRate(in *fields) error {
	r := scheduler.SavedRate{RateKey: scheduler.RateKey{Setting: string(in.word()), Name: in.quoted(), Rates: in.quoted()}}
	r.PaidAt = int64(in.uint(math.MaxInt64))
	if in.bad {
		return errMalformed
	}
	s.table.rates[r.RateKey] = r
	return nil
}

func (s *section) readRecipient(in *fields) error {
	message := in.uint(math.MaxUint64)
	e := entry{
		offset:     uint32(in.uint(math.MaxUint32)),
		modifiedAt: uint32(in.uint(math.MaxUint32)),
		attempts:   uint16(in.uint(math.MaxUint16)),
		nextAt:     uint32(in.uint(math.MaxUint32)),
		fedAt:      uint32(in.uint(math.MaxUint32)),
		step:       uint8(in.uint(math.MaxUint8)),
	}
	e.destinationFailed, e.inRetryStep = in.flags()
	e.diagnostic = s.numbers[uint32(in.uint(math.MaxUint32))]
	if in.bad {
		return errMalformed
	}
	t := s.table
	e.before = t.messages[message]
	t.entries = append(t.entries, e)
	t.messages[message] = uint32(len(t.entries))
	return nil
}

func (s *section) readThread(in *fields) error {
	t := scheduler.SavedThread{
		Channel: in.quoted(), Host: in.quoted(),
		SuspendedUntil: int64(in.uint(math.MaxUint32)), Step: int(in.uint(math.MaxUint8)),
	}
	t.Dead, t.InRetryStep = in.flags()
	t.Window = int(in.uint(math.MaxInt32))
	t.Success, t.Failure, t.FailedCohorts = in.float(), in.float(), in.float()
	number := s.numbers[uint32(in.uint(math.MaxUint32))]
	if in.bad {
		return errMalformed
	}
	if number != 0 {
		d := &s.table.diagnostics[number-1]
		t.Notary, t.Text = d.notary, d.text
	}
	if len(in.rest) > 0 {
		shaped := t
		readShaping(in, &shaped)
		if !in.bad {
			t = shaped
		}
	}
	s.table.threads[[2]string{t.Channel, t.Host}] = t
	return nil
}
