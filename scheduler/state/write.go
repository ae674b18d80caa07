package state

// Writing the saved state.

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/text"
	"zsched/scheduler"
)

// How many different reports a file has. Most mail shares few of them. After maxWhole, only
// the last reply of a report is written, which many recipients share; after maxReports, no
// more of them.
const (
	maxWhole   = 10_000
	maxReports = 100_000
)

// writeBuffer is how much is written at once.
const writeBuffer = 256 << 10

// Writer writes a new file, which replaces the one at path at Commit.
type Writer struct {
	path    string
	temp    string // where the new file is until Commit; "" afterwards
	file    *postoffice.File
	out     fields
	numbers map[diagnostic]uint32
}

// Create begins a new file.
func Create(path string) (*Writer, error) {
	temp := path + ".new"
	if err := postoffice.Remove(postoffice.WorkingDir, temp); err != nil {
		return nil, fmt.Errorf("removing %s: %w", temp, err)
	}
	f, err := postoffice.OpenFile(temp, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("saving the state: %w", err)
	}
	return &Writer{path: path, temp: temp, file: f, out: newOutput(), numbers: make(map[diagnostic]uint32)}, nil
}

// newOutput returns what writes lines, with the first one.
func newOutput() fields { return fields{writing: true, b: []byte(header + "\n")} }

// line writes one line of a kind.
func (w *Writer) line(kind byte, write func(f *fields)) {
	w.out.b = append(w.out.b, kind)
	write(&w.out)
	w.out.b = append(w.out.b, '\n')
}

// Write adds what was saved.
func (w *Writer) Write(s *scheduler.Saved) error {
	w.add(s)
	if len(w.out.b) < writeBuffer {
		return nil
	}
	return w.flush()
}

func (w *Writer) add(s *scheduler.Saved) {
	for i := range s.Threads {
		w.line('h', func(f *fields) { f.thread(&s.Threads[i]) })
	}
	for i := range s.Orders {
		w.line('o', func(f *fields) { f.order(&s.Orders[i]) })
	}
	for i := range s.Recipients {
		r := &s.Recipients[i]
		report := w.number(diagnostic{r.Notary, r.Text})
		w.line('r', func(f *fields) { f.recipient(r, &report) })
	}
}

// number returns the number of a diagnostic, and writes it if it is new; 0: there is none, or
// there are too many.
func (w *Writer) number(d diagnostic) uint32 {
	if n := w.numbers[d]; n != 0 {
		return n
	}
	if len(w.numbers) >= maxWhole {
		d = diagnostic{text: text.LastReply(d.text)}
	}
	n := w.numbers[d]
	if n == 0 && d != (diagnostic{}) && len(w.numbers) < maxReports {
		n = uint32(len(w.numbers) + 1)
		w.numbers[d] = n
		w.line('d', func(f *fields) { f.diagnostic(&n, &d) })
	}
	return n
}

// flush gives everything to the system.
func (w *Writer) flush() error {
	_, err := w.file.Write(w.out.b)
	w.out.b = w.out.b[:0]
	if err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	return nil
}

// Commit replaces the old file with the new one, durably.
func (w *Writer) Commit() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := postoffice.SyncData(w.file.FD()); err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	if err := postoffice.Replace(postoffice.WorkingDir, w.temp, postoffice.WorkingDir, w.path); err != nil {
		return fmt.Errorf("saving the state: renaming %s: %w", w.temp, err)
	}
	w.temp = ""
	if err := postoffice.SyncDir(filepath.Dir(w.path)); err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	return nil
}

// Close closes the file. Before Commit, it is lost.
func (w *Writer) Close() error {
	if w.temp != "" {
		_ = postoffice.Remove(postoffice.WorkingDir, w.temp)
	}
	return w.file.Close()
}
