package spool

// REQUEUE and REROUTE: recipients are given to the router again, or to another
// channel and host.

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Resubmission asks for recipients of a message to go another way.
type Resubmission struct {
	From Place // Queue or Hold
	Path string
	// Offsets of the recipients, nil for all that are open. What is not open,
	// or locked by a live process, stays as it is. Of an exclusive set the
	// first of those asked for goes, and the set is done with it.
	Offsets []int64
	// Channel and Host are where they go instead; both "" for the router.
	Channel, Host string
}

// Resubmit gives recipients of a message another life: to the router as a new
// message in router/, or rerouted, in a control file of their own with a copy
// of the message, to another channel and host. Then the old recipients are
// tagged '+': of them nobody need be told, because the new ones keep what the
// sender asked to hear of. Answered by Resubmitted. A held message of which no
// recipient is left open is to be released, so that it can be finished.
//
// The router is given the sender, NOTIFY, ORCPT, BY, ENVID and RET, the headers
// and the body. Its form of envelope has no place for an error address other
// than the sender; the time of BY counts anew; T lines are not repeated, for
// what they asked was done. An address that is no ctlfile.PlainAddress is
// refused. To the router the message is as old as its resubmission; a rerouted
// one keeps the age of its message file, and its x lines.
func (s *Spool) Resubmit(op uint64, r Resubmission) {
	r.Offsets = slices.Clone(r.Offsets)
	s.bulk.push(func() {
		staged, err := s.stage(&r)
		if err != nil {
			s.resubmitted(&r, Resubmitted{Op: op}, err)
			return
		}
		s.edit(r.Path, func() {
			answer := Resubmitted{Op: op}
			err := s.commit(&r, staged, &answer)
			s.resubmitted(&r, answer, err)
		})
	})
}

// resubmitted answers.
func (s *Spool) resubmitted(r *Resubmission, answer Resubmitted, err error) {
	switch {
	case errors.Is(err, errGone):
		answer.Missing = true
	case err != nil:
		answer.Err = fmt.Errorf("resubmitting %q: %w", r.Path, s.classify(r.Path, err))
	}
	s.queue.add([]Result{answer}, 0)
}

// choose returns which recipients of a file go: those asked for that are open.
func (r *Resubmission) choose(f *ctlfile.File, held func(*ctlfile.Recipient) bool) (chosen []int) {
	asked := slices.Sorted(slices.Values(r.Offsets))
	said := outcomes(f)
	open := func(to *ctlfile.Recipient) bool {
		_, done := said[to.Offset]
		return !done && (to.Tag == ctlfile.Open || to.Tag == ctlfile.Locked && !held(to))
	}
	// Sets of which one is at its end, under way or chosen.
	taken := map[int]bool{}
	for i := range f.Recipients {
		if to := &f.Recipients[i]; to.Class > 0 && !open(to) {
			tag := to.Tag
			if outcome, ok := said[to.Offset]; ok && tag != ctlfile.Delivered {
				tag = outcome
			}
			taken[to.Class] = taken[to.Class] || tag != ctlfile.Failed
		}
	}
	for i := range f.Recipients {
		to := &f.Recipients[i]
		if _, ok := slices.BinarySearch(asked, to.Offset); !ok && r.Offsets != nil {
			continue
		}
		if !open(to) || taken[to.Class] {
			continue
		}
		taken[to.Class] = to.Class > 0
		chosen = append(chosen, i)
	}
	return chosen
}

// commit publishes the staged copies, each with its recipients' tags after it. It is
// the only one at work on the file meanwhile. What is not given away is
// removed.
func (s *Spool) commit(r *Resubmission, staged []stagedCopy, answer *Resubmitted) error {
	defer func() {
		for _, p := range staged {
			p.remove()
		}
	}()
	var buf []byte
	d, err := readControl(s.control, s.pairs[r.From].transport, r.Path, unix.O_RDWR, &buf)
	if err != nil {
		return err
	}
	defer d.close()
	locks := locks{writtenAt: time.Unix(d.st.Mtim.Unix()), known: true}
	// A torn line stays: an agent that is at another recipient may be at it.
	if err := d.settle(locks.held); err != nil {
		return err
	}
	for i := range staged {
		if err = s.commitOne(&staged[i], &d, answer); err != nil {
			break
		}
	}
	answer.Owes, answer.Recipients = owes(d.file, false), states(d.file)
	return err
}

func (s *Spool) commitOne(p *stagedCopy, d *controlFile, answer *Resubmitted) error {
	if d.st.Ino != p.control.Ino || d.st.Dev != p.control.Dev {
		return errChanged
	}
	for _, offset := range p.offsets {
		if i := d.file.Find(offset); i < 0 || d.file.Recipients[i].Tag != ctlfile.Open {
			return errChanged
		}
	}
	name, err := s.publish(p, answer)
	if name == "" {
		return err
	}
	p.file = ""
	answer.Offsets = append(answer.Offsets, p.offsets...)
	if err != nil {
		// It may not outlive a crash: the old recipients stay, to go twice
		// rather than never.
		return err
	}
	marks := make([]ctlfile.Mark, len(p.offsets))
	for i, offset := range p.offsets {
		marks[i] = ctlfile.Mark{Offset: offset, Tag: ctlfile.Delivered}
	}
	return d.mark(marks)
}

// publish gives a staged copy its final name and returns that name. An error
// together with a name says that it may not outlive a crash.
func (s *Spool) publish(p *stagedCopy, answer *Resubmitted) (name string, err error) {
	office := s.options.Postoffice
	if p.draft != nil {
		name, err = ctlfile.Enqueue(office, s.options.HashLevels, p.draft, p.file)
		if name != "" {
			_, base := split(name)
			id, _ := ctlfile.Number(base)
			answer.Name = Name{name, id}
		}
		return name, err
	}
	router := ctlfile.Router{Postoffice: office, Levels: s.options.RouterLevels, Notify: s.options.RouterNotify}
	name, err = router.Give(p.file)
	if name != "" {
		answer.Router = append(answer.Router, name)
	}
	return name, err
}

// stagedCopy is a message for some recipients of another, complete and on disk
// under a temporary name in public/ or queue/.tmp.
type stagedCopy struct {
	file    string // "" once it was given away
	offsets []int64
	draft   *ctlfile.Contents // of the new control file; nil when the router gets it
	control unix.Stat_t       // of the old control file
}

func (p *stagedCopy) remove() {
	if p.file != "" {
		_ = os.Remove(p.file)
	}
}

// stage makes the staged copies of a resubmission. It only reads the old message, and
// can take as long as copying it does.
func (s *Spool) stage(r *Resubmission) (staged []stagedCopy, err error) {
	from := s.pairs[r.From]
	var buf []byte
	d, err := readControl(s.control, from.transport, r.Path, unix.O_RDONLY, &buf)
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
		staged, err = s.stageForRouter(d.file, chosen, message)
	} else {
		staged, err = s.stageForQueue(r, d.file, chosen, message)
	}
	for i := range staged {
		staged[i].control = d.st
	}
	return staged, err
}

func (s *Spool) stageForRouter(f *ctlfile.File, chosen []int, message *os.File) (staged []stagedCopy, err error) {
	for _, sub := range f.Resubmissions(chosen) {
		sub.By = s.options.By
		body := io.NewSectionReader(message, f.Body, math.MaxInt64-f.Body)
		file, err := sub.Write(s.options.Postoffice, s.temp+"*", interruptible{s, body})
		if err != nil {
			for i := range staged {
				staged[i].remove()
			}
			return nil, err
		}
		p := stagedCopy{file: file}
		for _, to := range sub.To {
			p.offsets = append(p.offsets, to.Offset)
		}
		staged = append(staged, p)
	}
	return staged, nil
}

func (s *Spool) stageForQueue(r *Resubmission, f *ctlfile.File, chosen []int, message *os.File) ([]stagedCopy, error) {
	p := stagedCopy{draft: f.Extract(chosen)}
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
	return []stagedCopy{p}, nil
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

// removeStale removes the staged copies of a process before us.
func (s *Spool) removeStale() {
	if fd, err := openDir(s.office, "public"); err == nil {
		s.removeStaleIn(fd)
		unix.Close(fd)
	}
	if fd, err := openDir(s.pairs[Queue].queue, postoffice.TempDir); err == nil {
		s.removeStaleIn(fd)
		unix.Close(fd)
	}
}

func (s *Spool) removeStaleIn(dir int) {
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
