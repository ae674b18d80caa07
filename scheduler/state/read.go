package state

// Reading the saved state.

import (
	"bufio"
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

// reader reads a file into a table.
type reader struct {
	table   *Table
	numbers map[uint32]uint32 // of diagnostics, to indexes from 1
}

// read reads a file. A last line without its end is skipped.
func (t *Table) read(from io.Reader) error {
	in := bufio.NewReaderSize(from, readBuffer)
	r := reader{table: t, numbers: make(map[uint32]uint32)}
	for first := true; ; first = false {
		line, err := readLine(in)
		switch {
		case err == io.EOF || err == nil && first && string(line) != header:
			return nil
		case err != nil:
			return err
		case first:
		case line == nil:
			t.Skipped++
		default:
			r.readLine(line)
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

// readLine reads one line.
func (r *reader) readLine(line []byte) {
	if len(line) < 2 || line[1] != ' ' {
		r.table.Skipped++
		return
	}
	f, t := fields{b: line[1:]}, r.table
	var event scheduler.Event
	switch line[0] {
	case 'd':
		r.readDiagnostic(&f)
	case 'r':
		r.readRecipient(&f)
	case 'h':
		var e scheduler.Restored
		f.thread(&e.Thread)
		event = e
	case 'o':
		r.readOrder(&f)
	}
	if f.bad {
		t.Skipped++
	} else if event != nil {
		t.events = append(t.events, event)
	}
}

func (r *reader) readOrder(f *fields) {
	o := scheduler.SavedOrder{Ordered: scheduler.Ordered{Targets: make([]scheduler.Target, 1)}}
	if f.order(&o); !f.bad {
		id := o.Targets[0].Message
		r.table.orders[id] = append(r.table.orders[id], o)
	}
}

func (r *reader) readDiagnostic(f *fields) {
	var number uint32
	var d diagnostic
	if f.diagnostic(&number, &d); f.bad {
		return
	}
	r.table.diagnostics = append(r.table.diagnostics, d)
	r.numbers[number] = uint32(len(r.table.diagnostics))
}

func (r *reader) readRecipient(f *fields) {
	var one scheduler.SavedRecipient
	var report uint32
	if f.recipient(&one, &report); f.bad {
		return
	}
	t := r.table
	t.entries = append(t.entries, entry{
		before: t.messages[uint64(one.Message)], offset: uint32(one.Offset),
		modifiedAt: uint32(one.ModifiedAt), nextAt: uint32(one.NextAt), fedAt: uint32(one.FedAt),
		diagnostic: r.numbers[report], attempts: uint16(one.Attempts), step: uint8(one.Step),
	})
	t.messages[uint64(one.Message)] = uint32(len(t.entries))
}
