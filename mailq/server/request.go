package server

// Requests: how a command of the table is answered.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/mailq"
)

// report is an answer of many lines. All ages and waits in it are relative to now.
type report struct {
	queue  Queue
	now    time.Time
	out    *answer
	rights rights
	server *Server
}

// rejected is the error of a command that is invalid.
type rejected struct{ error }

// Absent is the error of a question about something that does not exist, such as a message that
// has left the queue. It is not logged.
type Absent string

func (what Absent) Error() string { return string(what) }

// execute answers a request and reports whether the session continues. The session, and the work
// on the answer, ends if the peer does not read it or is gone. An order is carried out in any case.
func (r *request) execute(ctx context.Context) bool {
	switch {
	case r.command.run != nil:
		return r.command.run(r, ctx)
	case r.arguments == "" && r.arg != "":
		r.refuse(r.command, r.verb, r.rest)
		return true
	}
	ctx, stop := whileConnected(ctx, r.conn)
	defer stop()
	out := &answer{w: r.out, framed: true}
	write := r.text
	if r.asJSON {
		write = r.objects
	}
	err := write(ctx, &report{queue: r.server.queue, now: time.Now(), out: out, rights: r.rights, server: r.server}, r.arg)
	var invalid rejected
	if errors.As(err, &invalid) {
		return r.reject(err)
	}
	var gone Absent
	if err != nil && ctx.Err() == nil && !errors.Is(err, errWrite) && !errors.As(err, &gone) {
		r.note(Note{Kind: NoteQueue, Err: err})
	}
	return out.end(err, r.asJSON) == nil && ctx.Err() == nil
}

// reject answers a command that is invalid or cannot be executed. The session
// continues.
func (r *request) reject(err error) bool {
	r.reply("-ERR; " + mailq.OneReply(err.Error()))
	return true
}

// threadName reads a channel and a host and maps both to lower case, as they are
// in the queue. ZMailer's client does not quote, so a host may contain blanks
// without quotes.
func threadName(arg string) (mailq.Name, error) {
	name, rest, err := mailq.CutName(arg)
	if err != nil {
		return name, rejected{err}
	}
	if rest != "" {
		_, host := mailq.CutRaw(arg)
		name.Host = strings.TrimRight(host, " \t")
	}
	return mailq.Name{Channel: strings.ToLower(name.Channel), Host: strings.ToLower(name.Host)}, nil
}

// showWhere executes SHOW WHERE: the jobs that an order with this selection would affect.
func showWhere(ctx context.Context, r *report, arg string) error {
	where, err := mailq.ParseSelection(arg)
	if err != nil {
		return rejected{err}
	}
	return each(func(q Queue, ctx context.Context) jobs { return q.Select(ctx, where) })(ctx, r, arg)
}

// jobObjects executes JSON SHOW THREAD.
func jobObjects(ctx context.Context, r *report, arg string) error {
	name, err := threadName(arg)
	if err != nil {
		return err
	}
	return each(func(q Queue, ctx context.Context) jobs { return q.Jobs(ctx, name) })(ctx, r, arg)
}

// showMessage executes SHOW MSG: one message, held or not, by its spoolid or
// number.
func showMessage(ctx context.Context, r *report, arg string) error {
	id, rest, ok, err := mailq.CutWord(arg)
	if err != nil || !ok || rest != "" {
		return rejected{errors.New("the spoolid or number of one message is needed")}
	}
	m, found, err := r.queue.Message(ctx, id)
	switch {
	case err != nil:
		return err
	case !found:
		return Absent(fmt.Sprintf("no message %q is in the queue", id))
	}
	return r.out.object(m)
}

// explain executes EXPLAIN: what the mail for a destination is waiting for, the limits, and the
// clauses and parameters in force.
func explain(ctx context.Context, r *report, arg string) error {
	name, err := threadName(arg)
	if err != nil {
		return err
	}
	e, err := r.queue.Explain(ctx, name)
	if err != nil {
		return err
	}
	return r.out.object(e)
}
