package state

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
	"zsched/internal/transcript"
	"zsched/scheduler"
)

// How long a file may be. TooLong applies the greater bounds. A file that is
// written anew keeps the smaller ones, by leaving diagnostics out, so that it has
// room for changes.
const (
	maxPerRecipient = 100
	maxFixed        = 64 << 10
	newPerRecipient = 75
	newFixed        = 32 << 10
)

// maxNumbers bounds the diagnostics whose numbers a Writer remembers. Then it
// begins another section.
const maxNumbers = 1 << 14

// writeBuffer is how much is written at once.
const writeBuffer = 256 << 10

// Writer writes a file: to its end (Append), or anew (Create).
type Writer struct {
	path    string
	temp    string // where a new file is until Commit; "" afterwards
	file    *postoffice.File
	buf     []byte
	size    int64 // of the file and buf
	allowed int64 // that size may have with another diagnostic
	numbers map[diagnostic]uint32
}

// Append begins another section of the file, which is made if there is none. A
// last line that is torn is ended, so that readers skip it.
func Append(path string) (*Writer, error) {
	f, size, err := open(path, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, file: f, size: size, allowed: size + newFixed}
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			f.Close()
			return nil, fmt.Errorf("saved state: %w", err)
		}
		if last[0] != '\n' {
			w.buf = append(w.buf, "?\n"...)
		}
	}
	w.beginSection()
	return w, nil
}

// Create begins a new file, which replaces the one at path at Commit.
func Create(path string) (*Writer, error) {
	temp := path + ".new"
	if err := postoffice.Remove(postoffice.WorkingDir, temp); err != nil {
		return nil, fmt.Errorf("removing %s: %w", temp, err)
	}
	f, err := postoffice.OpenFile(temp, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("saving the state: %w", err)
	}
	w := &Writer{path: path, temp: temp, file: f, allowed: newFixed}
	w.beginSection()
	return w, nil
}

func (w *Writer) beginSection() {
	w.numbers = make(map[diagnostic]uint32)
	w.buf = appendHeader(w.buf)
}

// Size is how long the file is, including what is not flushed yet.
func (w *Writer) Size() int64 { return w.size + int64(len(w.buf)) }

// TooLong reports whether a file of this size must be written anew, given the number of
// recipients in the queue.
func TooLong(size int64, recipients int) bool {
	return size > maxFixed+maxPerRecipient*int64(recipients)
}

// Write adds what was saved.
func (w *Writer) Write(s *scheduler.Saved) error {
	for i := range s.Threads {
		t := &s.Threads[i]
		w.allowed += newPerRecipient
		number := w.number(diagnostic{t.Notary, t.Text})
		w.buf = appendThread(w.buf, t, number)
	}
	for i := range s.Rates {
		w.allowed += newPerRecipient
		w.buf = appendRate(w.buf, &s.Rates[i])
	}
	for i := range s.Rules {
		w.allowed += newPerRecipient
		w.buf = appendRule(w.buf, &s.Rules[i])
	}
	for i := range s.Recipients {
		r := &s.Recipients[i]
		w.allowed += newPerRecipient
		number := w.number(diagnostic{r.Notary, r.Text})
		w.buf = appendRecipient(w.buf, r, number)
		if len(w.buf) >= writeBuffer {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteNodes adds the names of the other nodes of the cluster.
func (w *Writer) WriteNodes(nodes []string) {
	w.allowed += newPerRecipient
	w.buf = appendNodes(w.buf, nodes)
}

// number returns the number of a diagnostic, and writes it if it is new. If there is no
// room for it, that is what the other side said last, which many recipients share. It
// returns 0 if there is none, or no room for that either.
func (w *Writer) number(d diagnostic) uint32 {
	if n := w.obtain(d); n != 0 {
		return n
	}
	return w.obtain(diagnostic{text: transcript.LastReply(d.text)})
}

// obtain returns the number of a diagnostic, and writes it if it is new and there is room
// for it; else 0.
func (w *Writer) obtain(d diagnostic) uint32 {
	if d == (diagnostic{}) {
		return 0
	}
	if n := w.numbers[d]; n != 0 {
		return n
	}
	if w.Size()+int64(len(d.notary)+len(d.text))+maxPerRecipient > w.allowed {
		return 0
	}
	if len(w.numbers) == maxNumbers {
		w.beginSection()
	}
	n := uint32(len(w.numbers) + 1)
	w.numbers[d] = n
	w.buf = appendDiagnostic(w.buf, n, d)
	return n
}

// Flush gives everything to the system.
func (w *Writer) Flush() error {
	n, err := w.file.Write(w.buf)
	w.size += int64(n)
	w.buf = w.buf[:0]
	if err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	return nil
}

// Sync makes everything that was flushed durable.
func (w *Writer) Sync() error {
	if err := postoffice.SyncData(w.file.FD()); err != nil {
		return fmt.Errorf("saving the state: %w", err)
	}
	return nil
}

// Commit replaces the old file with the new one, durably if sync is set. The Writer
// then appends to it.
func (w *Writer) Commit(sync bool) error {
	err := w.Flush()
	if err == nil && sync {
		err = w.Sync()
	}
	if err != nil {
		return err
	}
	if err := postoffice.Replace(postoffice.WorkingDir, w.temp, postoffice.WorkingDir, w.path); err != nil {
		return fmt.Errorf("saving the state: renaming %s: %w", w.temp, err)
	}
	w.temp = ""
	if sync {
		if err := syncdir.Sync(filepath.Dir(w.path)); err != nil {
			return fmt.Errorf("saving the state: %w", err)
		}
	}
	return nil
}

// InPlace reports whether the file is still the one at its path: somebody may have
// removed it.
func (w *Writer) InPlace() bool {
	var own, there unix.Stat_t
	return postoffice.Fstat(w.file.FD(), &own) == nil &&
		postoffice.Stat(postoffice.WorkingDir, w.path, &there) == nil && own.Ino == there.Ino && own.Dev == there.Dev
}

// Close closes the file. What was not flushed is lost, and so is a new file before
// Commit.
func (w *Writer) Close() error {
	if w.temp != "" {
		_ = postoffice.Remove(postoffice.WorkingDir, w.temp)
	}
	return w.file.Close()
}
