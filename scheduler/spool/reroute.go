package spool

// REQUEUE and REROUTE: recipients are submitted to the router again, or sent to
// another channel and host.

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Resubmission says which recipients of a message are sent where.
type Resubmission struct {
	From Place // Queue or Hold; for a move to another node also Postman
	Path string
	// Offsets of the recipients; nil for all that are open. A recipient that is
	// not open, or is locked by a live process, stays as it is. Of an exclusive
	// set, only the first recipient is sent, and that settles the set.
	Offsets []int64
	// Attempts is how often each of these was tried, which are then ascending; nil:
	// not known. Only a move to another node uses it.
	Attempts []int
	// Held says that the recipients stay held when they are moved to another node,
	// as those From Hold do.
	Held bool
	// Channel and Host are where they are sent; both "" for the router. Channel xfer
	// and the name of this node send recipients that are on their way to another node
	// back to where they were.
	Channel, Host string

	holds     *HoldsInForce // of a batch of moves
	elsewhere *elsewhere    // of a batch
	kept      error         // another node has taken recipients, which stay
	back      bool          // to where they were
}

// moves reports whether the recipients are moved to another node, whose name Host is, or
// back from their way to it.
func (r *Resubmission) moves() bool { return r.Channel == ctlfile.TransferChannel }

// Resubmit sends recipients of a message elsewhere: to the router as a new
// message in router/, or to another channel and host with a control file of their
// own and a copy of the message. Then it tags the old recipients '+'. They need
// no notice, because the new ones keep what the sender asked for. The result is
// Resubmitted. The caller releases a held message that has no open recipient
// left, so that it can be finished.
//
// The router gets the sender, NOTIFY, ORCPT, BY, ENVID and RET, the headers and
// the body. Its envelope has no line for an error address other than the sender;
// the time of BY starts anew; T lines are not repeated, because they were carried
// out. An address that is not a ctlfile.PlainAddress is refused. For the router
// the message is as old as its resubmission; a rerouted message keeps the age of
// its message file and its x lines.
//
// If recipients were on their way to another node, that node is asked before which of them
// it has (Options.Taken). These stay as they are. If it cannot be asked, all of them stay.
func (s *Spool) Resubmit(op uint64, r Resubmission) {
	r.Offsets = slices.Clone(r.Offsets)
	if r.moves() {
		r.back = r.Host == strings.ToLower(s.options.Node)
		s.moves.push(&move{resubmission: &r, answer: Resubmitted{Op: op}})
		return
	}
	s.bulk.push(func() {
		r.elsewhere = s.newElsewhere()
		staged, err := s.stage(&r)
		if errors.Is(err, errUnasked) {
			r.elsewhere.askAll()
			staged, err = s.stage(&r)
		}
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

// resubmitted queues the result.
func (s *Spool) resubmitted(r *Resubmission, answer Resubmitted, err error) {
	s.queue.add([]Result{s.resubmission(r, answer, err)}, 0)
}

// resubmission returns the result.
func (s *Spool) resubmission(r *Resubmission, answer Resubmitted, err error) Resubmitted {
	switch {
	case errors.Is(err, errGone):
		answer.Missing = true
	case err != nil:
		answer.Err = fmt.Errorf("resubmitting %q: %w", r.Path, s.classify(r.Path, err))
	case r.kept != nil:
		answer.Err = fmt.Errorf("resubmitting %q: %w", r.Path, r.kept)
	}
	return answer
}

// choose returns the recipients of a file that are sent: those that were asked
// for and are open.
func (r *Resubmission) choose(f *ctlfile.File, held func(*ctlfile.Recipient) bool) (chosen []int) {
	asked := slices.Sorted(slices.Values(r.Offsets))
	settled := outcomes(f)
	open := func(to *ctlfile.Recipient) bool {
		if !r.moves() && isDoneElsewhere(to) {
			return false // it must not be delivered
		}
		_, done := settled[to.Offset]
		return !done && (to.Tag == ctlfile.Open || isRecalled(to) || to.Tag == ctlfile.Locked && !held(to))
	}
	// Sets with a recipient that is done, is being delivered or was chosen.
	taken := map[int]bool{}
	for i := range f.Recipients {
		if to := &f.Recipients[i]; to.Class > 0 && !open(to) {
			tag := to.Tag
			if outcome, ok := settled[to.Offset]; ok && tag != ctlfile.Delivered {
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
		if !open(to) || taken[to.Class] || r.back && !wasMoved(to) {
			continue
		}
		taken[to.Class] = to.Class > 0 && !r.moves()
		chosen = append(chosen, i)
	}
	return chosen
}

// commit publishes the staged copies and tags the recipients of each. It runs in
// edit, so no other work on the file is done meanwhile. It removes copies that
// were not published.
func (s *Spool) commit(r *Resubmission, staged []stagedCopy, answer *Resubmitted) error {
	defer func() {
		for _, p := range staged {
			p.remove()
		}
	}()
	var buf []byte
	d, err := readControl(s.controlOf(r.From), s.pair(r.From).transport, r.Path, unix.O_RDWR, &buf)
	if err != nil {
		return err
	}
	defer d.close()
	locks := s.locksOf(&d, true)
	// A torn line stays: an agent may be writing it for another recipient.
	if err := d.settle(locks.held); err != nil {
		return err
	}
	for i := range staged {
		if err = s.commitOne(&staged[i], &d, answer); err != nil {
			break
		}
	}
	answer.Owes, answer.Recipients = s.owes(d.file, false), states(d.file)
	return err
}

func (s *Spool) commitOne(p *stagedCopy, d *controlFile, answer *Resubmitted) error {
	if err := p.fits(d); err != nil {
		return err
	}
	name, err := s.publish(p, answer)
	if name == "" {
		return err
	}
	p.file = ""
	if err != nil && p.draft == nil && postoffice.SyncAll(s.office) != nil {
		// The submission may not survive a crash. The old recipients stay open, in the
		// file and for the receiver, which would otherwise remove the message: delivery
		// twice is better than none.
		return err
	}
	answer.Offsets = append(answer.Offsets, p.offsets...)
	if err != nil && p.draft != nil {
		// Its name in the queue may not survive a crash, but the control file then has
		// the name that begins with a dot, which the next scheduler completes.
		return err
	}
	return d.mark(p.marks())
}

// fits returns errChanged if the control file is another one than when the copy was
// staged, or if its recipients are not open any more.
func (p *stagedCopy) fits(d *controlFile) error {
	if d.st.Ino != p.control.Ino || d.st.Dev != p.control.Dev {
		return errChanged
	}
	for _, offset := range p.offsets {
		if i := d.file.Find(offset); i < 0 || d.file.Recipients[i].Tag != ctlfile.Open && !isRecalled(&d.file.Recipients[i]) {
			return errChanged
		}
	}
	for _, offset := range p.unreported {
		if i := findLine(d.file, offset); i < 0 || d.file.Diagnostics[i].Tag != ctlfile.Open {
			return errChanged
		}
	}
	return nil
}

// marks are the outcomes of the old recipients.
func (p *stagedCopy) marks() []ctlfile.Mark {
	marks := make([]ctlfile.Mark, len(p.offsets))
	for i, offset := range p.offsets {
		marks[i] = ctlfile.Mark{Offset: offset, Tag: ctlfile.Delivered}
	}
	return marks
}

// publish gives a staged copy its final name and returns that name. An error
// together with a name says that the copy may not survive a crash.
func (s *Spool) publish(p *stagedCopy, answer *Resubmitted) (name string, err error) {
	office := s.options.Postoffice
	if p.draft != nil {
		name, err = ctlfile.Enqueue(office, s.options.HashLevels, p.draft, p.file)
		if name != "" {
			_, base := split(name)
			id, _ := ctlfile.Number(base)
			answer.Name, answer.SpoolID = Name{name, id}, p.spoolID
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

// stagedCopy is a message for some recipients of another message, complete and on
// disk in queue/.tmp.
type stagedCopy struct {
	spoolID    string // of the message, when it is in the queue
	file       string // "" once it is published
	offsets    []int64
	unreported []int64           // offsets of the d lines that go along
	held       bool              // the copy goes to hold/, not into the queue
	hold       string            // the H line of a held copy: who held it, and why
	draft      *ctlfile.Contents // of the new control file; nil when the router gets it
	control    unix.Stat_t       // of the old control file
}

func (p *stagedCopy) remove() {
	if p.file != "" {
		_ = postoffice.RemovePath(p.file)
	}
}

// stage makes the staged copies of a resubmission. It only reads the old message,
// and may take as long as copying it takes.
func (s *Spool) stage(r *Resubmission) (staged []stagedCopy, err error) {
	from := s.pair(r.From)
	var buf []byte
	d, err := readControl(s.controlOf(r.From), from.transport, r.Path, unix.O_RDONLY, &buf)
	if err != nil {
		return nil, err
	}
	locks := s.locksOf(&d, true)
	chosen := r.choose(d.file, locks.held)
	if r.back && len(chosen) == 0 && slices.ContainsFunc(d.file.Recipients, func(to ctlfile.Recipient) bool { return to.Tag == ctlfile.Open && !wasMoved(&to) }) {
		return nil, errors.New("the control file does not say where the recipients were before")
	}
	if chosen, r.kept, err = r.elsewhere.keep(d.file, chosen); err != nil {
		return nil, err
	}
	var unreported map[int][]int
	if r.moves() && !r.back {
		unreported = s.unreportedLines(d.file, chosen)
	}
	if len(chosen) == 0 && len(unreported) == 0 {
		return nil, nil
	}
	fd, err := postoffice.OpenAt(from.queue, r.Path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("message file: %w", err)
	}
	message := postoffice.NewFile(fd, "queue/"+r.Path)
	defer message.Close()
	var st unix.Stat_t
	switch err := postoffice.Fstat(fd, &st); {
	case err != nil:
		return nil, fmt.Errorf("message file: %w", err)
	case d.file.Body < 0:
		return nil, errors.New("the control file does not say where the body starts")
	case d.file.Body > st.Size:
		return nil, fmt.Errorf("message file: %d bytes, but the body starts at %d", st.Size, d.file.Body)
	}
	if r.Channel == "" && r.Host == "" {
		staged, err = s.stageForRouter(d.file, chosen, message)
	} else {
		_, base := split(r.Path)
		number, _ := ctlfile.Number(base)
		spoolID := ctlfile.SpoolID(number, time.Unix(st.Mtim.Unix()))
		p := stagedCopy{}
		switch {
		case r.back:
			p = r.stageBack(spoolID, d.file, chosen)
		case r.moves():
			p = r.stageMove(&mover{s.options.Node, spoolID}, d.file, chosen, unreported)
		default:
			p = r.stageReroute(d.file, chosen)
		}
		staged, err = s.stageForQueue(p, message, !r.moves()) // moves are synced together
	}
	for i := range staged {
		staged[i].control = d.st
	}
	return staged, err
}

func (s *Spool) stageForRouter(f *ctlfile.File, chosen []int, message *postoffice.File) (staged []stagedCopy, err error) {
	for _, sub := range f.Resubmissions(chosen) {
		sub.By = s.options.By
		body := io.NewSectionReader(message, f.Body, math.MaxInt64-f.Body)
		file, err := sub.Write(s.options.Postoffice, s.temp, interruptible{s, body})
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

// stageReroute returns the copy for another channel and host, without its message file.
func (r *Resubmission) stageReroute(f *ctlfile.File, chosen []int) (p stagedCopy) {
	p.draft = f.Extract(chosen)
	for _, i := range chosen {
		p.offsets = append(p.offsets, f.Recipients[i].Offset)
	}
	for to := range p.draft.All() {
		to.Channel, to.Host, to.Class = r.Channel, r.Host, 0
		to.Origin, to.Hold, to.Unreported = "", "", ""
	}
	return p
}

// stageForQueue copies the message file for a staged copy.
func (s *Spool) stageForQueue(p stagedCopy, message *postoffice.File, durable bool) (_ []stagedCopy, err error) {
	// Find out whether it can be written before the message is copied.
	p.draft.Name = "1"
	if _, err := p.draft.Encode(); err != nil {
		return nil, err
	}
	if p.file, err = s.copyMessage(message, durable); err != nil {
		return nil, err
	}
	info, err := postoffice.Lstat(p.file)
	if err != nil {
		p.remove()
		return nil, err
	}
	p.spoolID = ctlfile.SpoolID(info.Sys().(*syscall.Stat_t).Ino, info.ModTime())
	return []stagedCopy{p}, nil
}

// copyMessage copies a message into queue/.tmp, with its owner and age.
// Only our user can reach a name there, so the owner of the file cannot replace
// it.
func (s *Spool) copyMessage(message *postoffice.File, durable bool) (path string, err error) {
	f, err := postoffice.CreateTemp(s.options.Postoffice, s.temp)
	if err != nil {
		return "", fmt.Errorf("copying the message: %w", err)
	}
	if _, err = io.Copy(f, interruptible{s, message}); err == nil {
		err = postoffice.CopyMetadata(f, message)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = postoffice.RemovePath(f.Name())
		return "", fmt.Errorf("copying the message: %w", err)
	}
	return f.Name(), nil
}

// interruptible is a reader that fails when the spool is closed.
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

// tempPrefix begins the names of our temporary files. The part up to the next '-'
// identifies the process that made them.
const tempPrefix = "scheduler-"

// staleAge is how old a temporary file of any process has to be before it counts
// as left by a crash.
const staleAge = 24 * time.Hour

// removeStale removes temporary files that no process works on any more: staged
// copies of schedulers before us, and everything old in queue/.tmp.
func (s *Spool) removeStale() {
	if fd, err := postoffice.OpenDir(s.office, "public"); err == nil {
		s.removeStaleIn(fd, false)
		postoffice.Close(fd)
	}
	if fd, err := postoffice.OpenTemp(s.pair(Queue).queue); err == nil {
		s.removeStaleIn(fd, true)
		postoffice.Close(fd)
	}
}

// removeStaleIn removes them from one directory. In public/ everybody may make
// files, so only our own are removed. In a directory that is private to us, a
// copy may already have its sender as owner.
func (s *Spool) removeStaleIn(dir int, private bool) {
	for e := range entries(dir, make([]byte, direntBytes)) {
		name := string(e.name)
		var st unix.Stat_t
		if strings.HasPrefix(name, s.temp) || postoffice.Stat(dir, name, &st) != nil || !postoffice.IsRegular(&st) {
			continue
		}
		if !private && int(st.Uid) != os.Geteuid() {
			continue
		}
		old := private && time.Since(time.Unix(st.Ctim.Unix())) > staleAge
		if old || strings.HasPrefix(name, tempPrefix) {
			_ = postoffice.Remove(dir, name)
		}
	}
}
