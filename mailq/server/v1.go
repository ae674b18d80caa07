package server

// Version 1 of MAILQ: one dump for each connection.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"zsched/mailq"
)

// serveV1 answers a connection of v1: a dump, if the peer is on this machine. The refusal is that
// of ZMailer's TCP-wrappers, which clients know.
func (s *Server) serveV1(ctx context.Context, out *bufio.Writer, peer Peer, settings *Settings) {
	if !peer.unix() && !peer.Addr.Unmap().IsLoopback() {
		settings.Note(Note{Kind: NoteRemote, Peer: peer.String()})
		_, _ = out.WriteString("500 TCP-WRAPPER refusing 'mailq' query from your whereabouts\r\n")
		_ = out.Flush()
		return
	}
	_ = dump(ctx, out, s.queue, settings.Brief)
	_ = out.Flush()
}

// dump writes the dump of v1 (mailq(1), PROTOCOL, Version 1). With brief it
// leaves out the jobs. It always writes End:, because ZMailer's client waits for
// that forever.
func dump(ctx context.Context, w *bufio.Writer, queue Queue, brief bool) error {
	d := &dumper{out: &answer{w: w}, now: time.Now()}
	_ = d.out.text(mailq.GreetingV1)
	_ = d.out.text("Vertices:")
	var broken error
	if !brief {
		broken = d.vertices(ctx, queue)
	}
	if errors.Is(broken, errWrite) {
		return broken
	}
	if d.id > 0 {
		_ = d.out.text("Channels:")
		_ = d.channels.write(d.out)
		_ = d.out.text("Hosts:")
		_ = d.hosts.write(d.out)
	}
	if err := d.out.text("End:"); err != nil {
		return err
	}
	if broken == nil {
		broken = showThreads(ctx, &report{queue: queue, now: d.now, out: d.out, rights: rightsAll}, "")
	}
	if broken == nil || errors.Is(broken, errWrite) {
		return broken
	}
	return d.out.incomplete(broken, false)
}

type dumper struct {
	out             *answer
	now             time.Time
	id              uint32 // of the last job written
	channels, hosts index
}

// index lists the jobs of each channel or of each host. Names are in the order
// of their first jobs. The two indexes are all that a dump keeps in memory, 8
// bytes a job.
type index struct {
	names []string
	ids   map[string][]uint32
}

func (x *index) add(name string, id uint32) {
	ids, ok := x.ids[name]
	if !ok {
		if x.ids == nil {
			x.ids = make(map[string][]uint32)
		}
		x.names = append(x.names, name)
	}
	x.ids[name] = append(ids, id)
}

func (x *index) write(out *answer) error {
	for _, name := range x.names {
		b := []byte(mailq.Field(name) + ":\t")
		for _, id := range x.ids[name] {
			b = strconv.AppendUint(append(b, '>'), uint64(id), 10)
		}
		if err := out.text(string(b)); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) vertices(ctx context.Context, queue Queue) error {
	for job, err := range queue.Jobs(ctx, mailq.Name{}) {
		if err != nil {
			return err
		}
		if len(job.Recipients) == 0 {
			continue
		}
		d.id++
		d.channels.add(job.Channel, d.id)
		d.hosts.add(job.Host, d.id)
		if err := d.out.text(vertexLine(d.id, job, d.now)); err != nil {
			return err
		}
	}
	return nil
}

// vertexLine is a line of Vertices: number, control file, the count and
// the offsets of the recipients, and after # the last diagnostic and the state.
func vertexLine(id uint32, job *mailq.JobLine, now time.Time) string {
	var offsets []string
	attempts, reason := 0, ""
	for i := range job.Recipients {
		r := &job.Recipients[i]
		offsets = append(offsets, strconv.FormatInt(r.Offset, 10))
		attempts = max(attempts, r.Attempts)
		if reason == "" && r.Reason != "" {
			reason = mailq.OneLine(r.Reason) + " "
		}
	}
	state := stateOf(job, now)
	if !job.ExpiresAt.IsZero() {
		state += fmt.Sprintf(", expires in %s, tries=%d", formatSeconds(job.ExpiresAt.Unix()-now.Unix()), attempts)
	}
	return fmt.Sprintf("%d:\t%s\t%d; %s\t#%s(%s)", id, mailq.Field(job.Path), len(job.Recipients), strings.Join(offsets, ","), reason, state)
}

// stateOf says what a job does or waits for.
func stateOf(job *mailq.JobLine, now time.Time) string {
	switch wait := job.WakeAt.Unix() - now.Unix(); {
	case !job.WakeAt.IsZero() && wait > 0:
		return "retry in " + formatSeconds(wait)
	case pending[job.Wait] == pendingTA, pending[job.Wait] == pendingThread:
		return "waiting for slot"
	case pending[job.Wait] == pendingChannel:
		return "waiting for channel slot"
	case pending[job.Wait] == pendingRing:
		return "waiting for thread slot"
	case job.PID == 0:
		return "activation pending, thread inactive"
	case job.Next:
		return fmt.Sprintf("running now, pid=%d NextFeed", job.PID)
	}
	return fmt.Sprintf("running now, pid=%d", job.PID)
}

// Rendezvous writes the dump of v1 to the rendezvous file, for hosts where mailq
// reads that file (scheduler(8), -q). An mtime one second in the past tells readers
// that the file is complete. In the usual directory any user can create files, so
// a new file replaces any file of that name.
func (s *Server) Rendezvous(ctx context.Context, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".mailq-*")
	if err != nil {
		return fmt.Errorf("rendezvous file: %w", err)
	}
	w := bufio.NewWriterSize(f, outBuffer)
	err = dump(ctx, w, s.queue, s.settings.Load().Brief)
	err = errors.Join(err, w.Flush(), f.Chmod(0o644), f.Close())
	then := time.Now().Add(-time.Second)
	if err == nil {
		err = os.Chtimes(f.Name(), then, then)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("rendezvous file %s: %w", path, err)
	}
	return nil
}
