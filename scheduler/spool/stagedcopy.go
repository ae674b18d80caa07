package spool

// Staged copies: complete messages in queue/.tmp that are not published yet, and the removal
// of those that a crash has left.

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
	"zsched/scheduler"
)

// stagedCopy is a message for some recipients of another message, complete and on
// disk in queue/.tmp.
type stagedCopy struct {
	of      *resubmission // known when the batch is committed
	spoolID string        // of the message, when it is in the queue
	file    string
	offsets []int64
	item    queue.Item   // without Contents when the router gets it
	name    string       // below router/, when it has it
	fate    ctlfile.Fate // of the old recipients
	sentTo  string       // the thread that they are sent to; without spoolID, what is done to them, for people
	control unix.Stat_t  // of the old control file
}

// remove removes the copy, unless it is published.
func (p *stagedCopy) remove() {
	if !p.item.Claimed && p.name == "" {
		_ = postoffice.RemovePath(p.file)
	}
}

// fits returns errChanged if the control file is another one than when the copy was
// staged, or if its recipients are not open any more.
func (p *stagedCopy) fits(d *controlFile) error {
	if d.st.Ino != p.control.Ino || d.st.Dev != p.control.Dev {
		return errChanged
	}
	for _, offset := range p.offsets {
		if i := d.file.Find(offset); i < 0 || d.file.Recipients[i].Tag != ctlfile.Open {
			return errChanged
		}
	}
	return nil
}

// marks are the outcomes of the old recipients.
func (p *stagedCopy) marks() []ctlfile.Mark {
	marks, text := make([]ctlfile.Mark, len(p.offsets)), p.sentTo
	if p.spoolID != "" {
		text = ctlfile.SentText(p.sentTo, len(p.offsets), p.spoolID)
	}
	for i, offset := range p.offsets {
		marks[i] = ctlfile.Mark{Offset: offset, Tag: ctlfile.Delivered, Fate: p.fate, Text: text}
	}
	return marks
}

// stage makes the staged copies of a resubmission. It only reads the old message,
// and may take as long as copying it takes.
func (mv *mover) stage(r *scheduler.Resubmit) (staged []*stagedCopy, err error) {
	place, path := placeOf(r.Path)
	from := mv.s.places.pairs[place]
	var buf []byte
	d, err := mv.s.places.openControl(r.Path, &buf)
	defer d.close()
	if err != nil {
		return nil, err
	}
	locks := locks{&mv.s.lockHolders, new(scheduler.Read)}
	chosen := choose(r, d.file, locks.held)
	if len(chosen) == 0 {
		return nil, nil
	}
	fd, err := postoffice.OpenAt(from.queue, path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("message file: %w", err)
	}
	message := postoffice.NewFile(fd, "queue/"+path)
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
	if err := postoffice.CheckSize(&st, d.file.Body, mv.s.options.MaxSize); err != nil {
		return nil, err
	}
	if r.Channel == "" && r.Host == "" {
		staged, err = mv.stageForRouter(d.file, chosen, message, st.Size)
	} else {
		staged, err = mv.stageForQueue(r, ctlfile.SpoolID(nameOf(path).ID, time.Unix(st.Mtim.Unix())), d.file, chosen, message)
	}
	for _, p := range staged {
		p.control = d.st
	}
	return staged, err
}

// stageForRouter makes the submissions that give the chosen recipients back to the router.
func (mv *mover) stageForRouter(f *ctlfile.File, chosen []int, message *postoffice.File, size int64) (staged []*stagedCopy, err error) {
	for _, sub := range queue.Resubmissions(f, chosen) {
		sub.By = mv.s.options.By
		body := io.NewSectionReader(message, f.Body, size-f.Body)
		file, err := sub.Write(mv.s.options.Postoffice, mv.s.temp, body)
		if err != nil {
			for _, p := range staged {
				p.remove()
			}
			return nil, err
		}
		p := &stagedCopy{file: file, fate: ctlfile.Requeued, sentTo: "given back to the router"}
		for _, to := range sub.To {
			p.offsets = append(p.offsets, to.Offset)
		}
		staged = append(staged, p)
	}
	return staged, nil
}

// stageForQueue makes the copy for another channel and host, from the message with a spoolid.
func (mv *mover) stageForQueue(r *scheduler.Resubmit, spoolID string, f *ctlfile.File, chosen []int, message *postoffice.File) ([]*stagedCopy, error) {
	p := &stagedCopy{fate: ctlfile.Rerouted, sentTo: r.Channel + "/" + r.Host}
	draft := f.Extract(chosen)
	next := 0
	for to := range draft.All() {
		old := &f.Recipients[chosen[next]]
		next++
		p.offsets = append(p.offsets, old.Offset)
		to.Origin = ""
		if moves(r) {
			from := origin(r, mv.s.options.Node, spoolID, old)
			to.Origin = from.String()
		}
		to.Channel, to.Host, to.Class = r.Channel, r.Host, 0
	}
	// Find out whether it can be written before the message is copied.
	draft.Name = "1"
	if _, err := draft.Encode(); err != nil {
		return nil, err
	}
	var err error
	if p.file, err = mv.copyMessage(message); err != nil {
		return nil, err
	}
	info, err := postoffice.Lstat(p.file)
	if err != nil {
		p.remove()
		return nil, err
	}
	p.spoolID = ctlfile.SpoolID(info.Sys().(*syscall.Stat_t).Ino, info.ModTime())
	p.item = queue.Item{Contents: draft, Message: p.file, Held: r.Hold != nil, Source: spoolID}
	return []*stagedCopy{p}, nil
}

// copyMessage copies a message into queue/.tmp, with its owner and age.
// Only our user can reach a name there, so the owner of the file cannot replace
// it.
func (mv *mover) copyMessage(message *postoffice.File) (path string, err error) {
	f, err := postoffice.CreateTemp(mv.s.options.Postoffice, mv.s.temp)
	if err != nil {
		return "", fmt.Errorf("copying the message: %w", err)
	}
	// The owner of the message can make it grow meanwhile.
	info, err := message.Stat()
	if err == nil {
		_, err = io.Copy(f, io.NewSectionReader(message, 0, info.Size()))
	}
	if err == nil {
		err = postoffice.CopyMetadata(f, message)
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

// tempPrefix begins the names of our temporary files. The part up to the next '-'
// identifies the process that made them.
const tempPrefix = "scheduler-"

// staleAge is how old a temporary file of any process has to be before it counts
// as left by a crash.
const staleAge = 24 * time.Hour

// removeStale removes temporary files that no process works on any more: staged
// copies of schedulers before us, and everything old in queue/.tmp and transport/.submit.
func (j *janitor) removeStale() {
	if fd, err := postoffice.OpenTemp(j.s.places.pairs[Queue].queue); err == nil {
		j.removeStaleIn(fd)
		postoffice.Close(fd)
	}
	if fd, err := postoffice.OpenDir(j.s.places.pairs[Queue].transport, queue.SubmitStaging); err == nil {
		j.removeStaleIn(fd)
		postoffice.Close(fd)
	}
}

// removeStaleIn removes the stale files of one directory, which is private to us. A copy there
// may already have its sender as owner.
func (j *janitor) removeStaleIn(dir int) {
	names, _ := postoffice.ReadNamesAt(dir, ".")
	for _, name := range names {
		var st unix.Stat_t
		if strings.HasPrefix(name, j.s.temp) || postoffice.Stat(dir, name, &st) != nil || !postoffice.IsRegular(&st) {
			continue
		}
		old := time.Since(time.Unix(st.Ctim.Unix())) > staleAge
		if old || strings.HasPrefix(name, tempPrefix) {
			_ = postoffice.Remove(dir, name)
		}
	}
}
