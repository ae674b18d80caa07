package spool

// An open control file, as it was read and as it is changed.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// controlFile is a control file that was read and may be changed in place.
type controlFile struct {
	st   unix.Stat_t // when it was read
	file *ctlfile.File
	fd   int // open for writing, but for a query; -1: it was not read
}

// errChanged says that the file has to be read again: another process, or we, changed it after that.
var errChanged = errors.New("changed while it was worked on")

// malformed is the error for a file whose contents cannot be understood.
type malformed struct{ reason string }

func (e *malformed) Error() string { return e.reason }

// bufferKept bounds the buffer that is kept for the next control file.
const bufferKept = 1 << 20

// readControl reads the control file at path and leaves it open. buf is used, and replaced if
// it was too small. The error is errGone, errChanged, a *malformed, postoffice.ErrInUse or the system's; st
// is valid for a *malformed.
func (at *places) readControl(control postoffice.Control, dir int, path string, flags int, buf *[]byte) (controlFile, error) {
	d := controlFile{fd: -1}
	fd, st, err := control.Open(dir, path, flags)
	switch err {
	case nil:
	case unix.ENOENT, unix.ELOOP, unix.ENXIO, unix.EISDIR, postoffice.ErrNotRegular:
		return d, at.gone(dir, path)
	default:
		return d, fmt.Errorf("open: %w", err)
	}
	d.st, d.fd = st, fd
	if err = d.read(buf); err != nil {
		d.close()
	}
	return d, err
}

// openControl reads the control file at a path, below hold/ or not, to change it.
func (at *places) openControl(path string, buf *[]byte) (controlFile, error) {
	place, path := placeOf(path)
	return at.readControl(at.controlOf(place), at.pairs[place].transport, path, unix.O_RDWR, buf)
}

func (d *controlFile) read(buf *[]byte) error {
	switch {
	case d.st.Size == 0:
		return &malformed{"the file is empty"}
	case d.st.Size > ctlfile.MaxSize:
		return &malformed{fmt.Sprintf("a file of %d bytes is too large", d.st.Size)}
	}
	data, err := postoffice.ReadFull(d.fd, d.st.Size, *buf)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if cap(data) <= bufferKept {
		*buf = data
	}
	if d.file, err = ctlfile.Parse(data); err != nil {
		return &malformed{err.Error()}
	}
	return nil
}

func (d *controlFile) close() {
	if d.fd >= 0 {
		postoffice.Close(d.fd)
		d.fd = -1
	}
}

// tag changes the tag of recipient i in the file and in memory.
func (d *controlFile) tag(i int, to ctlfile.Tag) error {
	r := &d.file.Recipients[i]
	if r.Tag == to {
		return nil
	}
	done, err := ctlfile.Swap(d.fd, r.Offset, r.Tag, to, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errTag, err)
	}
	if !done {
		return errChanged
	}
	r.Tag, r.Lock = to, ""
	return nil
}

// setDelays writes how many notices of delay the sender has had about a
// recipient.
func (d *controlFile) setDelays(r *ctlfile.Recipient, delays int) error {
	if err := ctlfile.SetDelays(d.fd, r.Offset, delays); err != nil {
		return err
	}
	r.Delays = delays
	return nil
}

// tagLine writes the tag of d line i. Delivered says that the line is reported: the sender was told
// of it or need not be. Open, which it has now, shows that it can be written.
func (d *controlFile) tagLine(i int, tag ctlfile.Tag) error {
	line := &d.file.Diagnostics[i]
	if _, err := ctlfile.Swap(d.fd, line.Offset, ctlfile.Open, tag, 0); err != nil {
		return err
	}
	line.Tag = tag
	return nil
}
