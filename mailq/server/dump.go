package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"zsched/mailq"
)

// dump writes the picture of v1 (scheduler(8), "MAILQ(v1) PROTOCOL"). With
// brief the jobs are left out. It always comes to End:, since the old client
// reads on for ever without.
func dump(ctx context.Context, w *bufio.Writer, queue Queue, brief bool) error {
	d := &dumper{out: &lines{w: w}, now: time.Now()}
	_ = d.out.text(mailq.GreetingV1)
	_ = d.out.text("Vertices:")
	var trouble error
	if !brief {
		trouble = d.vertices(ctx, queue)
	}
	if errors.Is(trouble, errWrite) {
		return trouble
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
	if trouble != nil {
		return d.out.broken(trouble, false)
	}
	r := reports{queue: queue, now: d.now, out: d.out}
	err := r.full(ctx)
	if err == nil || errors.Is(err, errWrite) {
		return err
	}
	return d.out.broken(err, false)
}

type dumper struct {
	out             *lines
	now             time.Time
	id              uint32 // of the last job written
	channels, hosts web
}

// web is the jobs of each name, names in the order met. It is all of the
// queue that a picture keeps in memory, 8 bytes a job.
type web struct {
	names []string
	ids   map[string][]uint32
}

func (w *web) add(name string, id uint32) {
	ids, ok := w.ids[name]
	if !ok {
		if w.ids == nil {
			w.ids = make(map[string][]uint32)
		}
		w.names = append(w.names, name)
	}
	w.ids[name] = append(ids, id)
}

func (w *web) write(out *lines) error {
	for _, name := range w.names {
		b := append(out.line[:0], mailq.Field(name)...)
		b = append(b, ":\t"...)
		for _, id := range w.ids[name] {
			b = strconv.AppendUint(append(b, '>'), uint64(id), 10)
		}
		out.line = b
		if err := out.put(b); err != nil {
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
		d.out.line = appendVertex(d.out.line[:0], d.id, job, d.now)
		if err := d.out.put(d.out.line); err != nil {
			return err
		}
	}
	return nil
}

// appendVertex is a job: number, file, count and offsets of its recipients,
// and behind # the last diagnostic and how it stands.
func appendVertex(b []byte, id uint32, job *mailq.Job, now time.Time) []byte {
	b = fmt.Appendf(b, "%d:\t%s\t%d; ", id, mailq.Field(job.Path), len(job.Recipients))
	attempts, reason := 0, ""
	for i := range job.Recipients {
		r := &job.Recipients[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, r.Offset, 10)
		attempts = max(attempts, r.Attempts)
		if reason == "" {
			reason = r.Reason
		}
	}
	b = append(b, "\t#"...)
	if reason != "" {
		b = append(append(b, mailq.OneLine(reason)...), ' ')
	}
	b = append(b, '(')
	b = appendStanding(b, job, now)
	if !job.ExpiresAt.IsZero() {
		b = fmt.Appendf(b, ", expires in %s, tries=%d", saySeconds(job.ExpiresAt.Unix()-now.Unix()), attempts)
	}
	return append(b, ')')
}

// appendStanding is what a job does or waits for.
func appendStanding(b []byte, job *mailq.Job, now time.Time) []byte {
	if wait := job.WakeAt.Unix() - now.Unix(); !job.WakeAt.IsZero() && wait > 0 {
		return append(append(b, "retry in "...), saySeconds(wait)...)
	}
	switch job.Pending {
	case mailq.PendingTA, mailq.PendingThread:
		return append(b, "waiting for slot"...)
	case mailq.PendingChannel:
		return append(b, "waiting for channel slot"...)
	case mailq.PendingRing:
		return append(b, "waiting for thread slot"...)
	}
	if job.PID == 0 {
		return append(b, "activation pending, thread inactive"...)
	}
	b = strconv.AppendInt(append(b, "running now, pid="...), int64(job.PID), 10)
	if job.Next {
		b = append(b, " NextFeed"...)
	}
	return b
}

// Rendezvous writes the picture of v1 to a file, for machines where mailq
// reads that (scheduler(8), -q). Its mtime is set a second back, from which
// readers see that it is whole. A symbolic link is not followed: the usual
// place is one where everybody may make them.
func (s *Server) Rendezvous(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return fmt.Errorf("rendezvous file: %w", err)
	}
	w := bufio.NewWriterSize(io.Writer(f), outBuffer)
	err = dump(ctx, w, s.queue, s.settings.Load().Brief)
	err = errors.Join(err, w.Flush(), f.Close())
	then := time.Now().Add(-time.Second)
	if err = errors.Join(err, os.Chtimes(path, then, then)); err != nil {
		return fmt.Errorf("rendezvous file %s: %w", path, err)
	}
	return nil
}
