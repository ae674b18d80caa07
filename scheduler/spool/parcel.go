package spool

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// parcel is a message for some recipients of another, complete and on disk
// under a temporary name in public/ or queue/.tmp.
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

// copyMessage makes a copy in queue/.tmp, on disk, of the same owner and age.
// Nobody but us can reach a name there, so that its owner cannot replace it.
func (s *Spool) copyMessage(message *os.File) (path string, err error) {
	dir, err := postoffice.OpenTemp(s.pairs[Queue].queue)
	if err != nil {
		return "", fmt.Errorf("copying the message: %w", err)
	}
	defer unix.Close(dir)
	name := s.temp + strconv.FormatUint(rand.Uint64(), 36)
	fd, err := postoffice.OpenAt(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("copying the message: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	err = s.fillCopy(dir, f, message)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = remove(dir, name)
		return "", fmt.Errorf("copying the message: %w", err)
	}
	return postoffice.TempPath(s.options.Postoffice, name), nil
}

// fillCopy copies the message into a new file in the directory, then its age,
// mode and owner.
func (s *Spool) fillCopy(dir int, to, message *os.File) error {
	if _, err := io.Copy(to, interruptible{s, message}); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(message.Fd()), &st); err != nil {
		return err
	}
	times := []unix.Timespec{st.Mtim, st.Mtim}
	if err := unix.UtimesNanoAt(dir, to.Name(), times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := unix.Fchmod(int(to.Fd()), st.Mode&0o777); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchown(int(to.Fd()), int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return to.Sync()
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

// tempPrefix begins the names of our temporary files; what is
// between it and the next '-' tells the process that made them.
const tempPrefix = "scheduler-"

// discardParcels removes the parcels of a process before us.
func (s *Spool) discardParcels() {
	if fd, err := openDir(s.office, "public"); err == nil {
		s.discardParcelsIn(fd)
		unix.Close(fd)
	}
	if fd, err := openDir(s.pairs[Queue].queue, postoffice.TempDir); err == nil {
		s.discardParcelsIn(fd)
		unix.Close(fd)
	}
}

func (s *Spool) discardParcelsIn(dir int) {
	for e := range entries(dir, make([]byte, direntBytes)) {
		name := string(e.name)
		if !strings.HasPrefix(name, tempPrefix) || strings.HasPrefix(name, s.temp) {
			continue
		}
		// Anybody may make files in public/. In queue/.tmp nobody else does, and
		// a copy may be its sender's already.
		var st unix.Stat_t
		if stat(dir, name, &st) == nil && regular(&st) && (int(st.Uid) == os.Geteuid() || oursAlone(dir)) {
			_ = remove(dir, name)
		}
	}
}

// oursAlone reports whether nobody else can make a name in the directory.
func oursAlone(dir int) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) == nil && int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0
}
