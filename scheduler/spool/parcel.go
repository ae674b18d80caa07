package spool

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// parcel is a message for some recipients of another, complete and on disk
// under a temporary name in public/.
type parcel struct {
	file    string // "" once it was given away
	offsets []int64
	draft   *ctlfile.Contents // of the new control file; nil when the router gets it
	control unix.Stat_t       // of the old control file
}

func (p *parcel) remove() {
	if p.file != "" {
		_ = os.Remove(p.file)
	}
}

// pack makes the parcels of a resubmission. It only reads the old message, and
// can take as long as copying it does.
func (s *Spool) pack(r *Resubmission) (parcels []parcel, err error) {
	from := s.pairs[r.From]
	var buf []byte
	d, err := load(s.control, from.transport, r.Path, unix.O_RDONLY, &buf)
	if err != nil {
		return nil, err
	}
	locks := locks{writtenAt: time.Unix(d.st.Mtim.Unix()), known: true}
	chosen := r.choose(d.file, locks.held)
	if len(chosen) == 0 {
		return nil, nil
	}
	fd, err := openFile(from.queue, r.Path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("message file: %w", err)
	}
	message := os.NewFile(uintptr(fd), "queue/"+r.Path)
	defer message.Close()
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil:
		return nil, fmt.Errorf("message file: %w", err)
	case d.file.Body < 0:
		return nil, errors.New("the control file does not say where the body starts")
	case d.file.Body > st.Size:
		return nil, fmt.Errorf("message file: %d bytes, and the body is to start at %d", st.Size, d.file.Body)
	}
	if r.Channel == "" && r.Host == "" {
		parcels, err = s.packForRouter(d.file, chosen, message)
	} else {
		parcels, err = s.packForQueue(r, d.file, chosen, message)
	}
	for i := range parcels {
		parcels[i].control = d.st
	}
	return parcels, err
}

func (s *Spool) packForRouter(f *ctlfile.File, chosen []int, message *os.File) (parcels []parcel, err error) {
	for _, sub := range f.Resubmissions(chosen) {
		sub.By = s.options.By
		body := io.NewSectionReader(message, f.Body, math.MaxInt64-f.Body)
		file, err := sub.Write(s.options.Postoffice, s.temp+"*", interruptible{s, body})
		if err != nil {
			for i := range parcels {
				parcels[i].remove()
			}
			return nil, err
		}
		p := parcel{file: file}
		for _, to := range sub.To {
			p.offsets = append(p.offsets, to.Offset)
		}
		parcels = append(parcels, p)
	}
	return parcels, nil
}

func (s *Spool) packForQueue(r *Resubmission, f *ctlfile.File, chosen []int, message *os.File) ([]parcel, error) {
	p := parcel{draft: f.Extract(chosen)}
	for _, i := range chosen {
		p.offsets = append(p.offsets, f.Recipients[i].Offset)
	}
	for i := range p.draft.Blocks {
		for _, e := range p.draft.Blocks[i].Envelopes {
			for j := range e.Recipients {
				to := &e.Recipients[j]
				to.Channel, to.Host, to.Class = r.Channel, r.Host, 0
			}
		}
	}
	// Whether it can be written is known before the message is copied.
	p.draft.Name = "1"
	if _, err := p.draft.Encode(); err != nil {
		return nil, err
	}
	var err error
	p.file, err = s.copyMessage(message)
	if err != nil {
		return nil, err
	}
	return []parcel{p}, nil
}

// copyMessage makes a copy in public/, on disk, of the same owner and age.
func (s *Spool) copyMessage(message *os.File) (file string, err error) {
	f, err := os.CreateTemp(filepath.Join(s.options.Postoffice, "public"), s.temp+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			_ = os.Remove(f.Name())
			file, err = "", fmt.Errorf("copying the message: %w", err)
		}
	}()
	var st unix.Stat_t
	fd := int(f.Fd())
	if _, err = io.Copy(f, interruptible{s, message}); err != nil {
		return "", err
	}
	if err = unix.Fstat(int(message.Fd()), &st); err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		err = unix.Fchown(fd, int(st.Uid), int(st.Gid))
	}
	if err == nil {
		err = unix.Fchmod(fd, st.Mode&0o777)
	}
	if err == nil {
		err = unix.UtimesNanoAt(unix.AT_FDCWD, f.Name(), []unix.Timespec{st.Mtim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = f.Sync()
	}
	return f.Name(), err
}

// interruptible reads until the spool is closed.
type interruptible struct {
	s    *Spool
	from io.Reader
}

func (r interruptible) Read(b []byte) (int, error) {
	if r.s.closed() {
		return 0, errClosed
	}
	return r.from.Read(b)
}

// tempPrefix begins the names of our temporary files in public/; what is
// between it and the next '-' tells the process that made them.
const tempPrefix = "scheduler-"

// discardParcels removes the parcels of a process before us.
func (s *Spool) discardParcels() {
	fd, err := openDir(s.office, "public")
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for e := range entries(fd, make([]byte, direntBytes)) {
		name := string(e.name)
		if !strings.HasPrefix(name, tempPrefix) || strings.HasPrefix(name, s.temp) {
			continue
		}
		// Anybody may make files there.
		var st unix.Stat_t
		if stat(fd, name, &st) == nil && regular(&st) && int(st.Uid) == os.Geteuid() {
			_ = remove(fd, name)
		}
	}
}
