package main

// The verb try: runs one agent with a copy of a message and shows the lines of both
// sides of the protocol.

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"zsched/ctlfile"
	child "zsched/scheduler/agent"
	"zsched/ta"
)

// trial is one run of an agent.
type trial struct {
	host    string
	alone   bool          // the job line has no host
	timeout time.Duration // for the whole run

	out    io.Writer
	events chan child.Event
	typed  chan string // lines from standard input; nil: the job line is made from a file
	agent  *child.Agent
	job    ta.Job
	open   map[int64]string // addresses of recipients without a report, by offset
	given  bool             // the job line was sent
	closed bool             // the agent was asked to exit
}

func tryFlags(t *trial) *pflag.FlagSet {
	f := pflag.NewFlagSet("try", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.StringVar(&t.host, "host", "", "`host` of the job line; default: that of the first open recipient")
	f.BoolVar(&t.alone, "alone", false, "job line without a host, for a command with $host")
	f.DurationVar(&t.timeout, "timeout", 2*time.Minute, "longest `time` for the whole run")
	return f
}

// try runs: try [option ...] file|- -- command [argument ...].
func try(args []string, stdin io.Reader, stdout io.Writer) error {
	t := &trial{out: stdout, events: make(chan child.Event), open: make(map[int64]string)}
	flags := tryFlags(t)
	if err := flags.Parse(args); err != nil {
		if err == pflag.ErrHelp {
			return err
		}
		return usageError(err.Error())
	}
	command := flags.Args()
	if flags.ArgsLenAtDash() != 1 || len(command) < 2 {
		return usageError("try takes one file, or - for typed lines, then -- and the command of the agent")
	}
	dir := "."
	if command[0] == "-" {
		t.typed = make(chan string)
		go readLines(stdin, t.typed)
	} else {
		scratch, err := os.MkdirTemp("", "ctlfile-try-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(scratch)
		if err := t.copyMessage(command[0], scratch); err != nil {
			return err
		}
		dir = filepath.Join(scratch, "transport")
	}
	return t.run(dir, command[1:])
}

// copyMessage copies a control file and its message file to transport/ and queue/
// below a directory, so that the agent does not change the files of the queue.
func (t *trial) copyMessage(path, to string) error {
	f, err := read(path)
	if err != nil {
		return err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	i := strings.LastIndex(abs, "/transport/")
	if i < 0 {
		return fmt.Errorf("%s: not below a directory transport, so its message file is not known", path)
	}
	body, err := os.Open(abs[:i] + "/queue/" + abs[i+len("/transport/"):])
	if err != nil {
		return err
	}
	defer body.Close()
	for _, name := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(to, name), 0o700); err != nil {
			return err
		}
	}
	base := filepath.Base(abs)
	if err := os.WriteFile(filepath.Join(to, "transport", base), f.text, 0o600); err != nil {
		return err
	}
	message, err := os.OpenFile(filepath.Join(to, "queue", base), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(message, body)
	if e := message.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("copy the message file: %w", err)
	}
	return t.choose(f.File, base)
}

// choose makes the job line and records its recipients.
func (t *trial) choose(f *ctlfile.File, base string) error {
	host, channel := strings.ToLower(t.host), ""
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if !f.Open(i) || host != "" && r.RouteHost() != host || channel != "" && r.RouteChannel() != channel {
			continue
		}
		host, channel = r.RouteHost(), r.RouteChannel()
		t.open[r.Offset] = r.User
	}
	if len(t.open) == 0 {
		return fmt.Errorf("%s: no open recipient for the host %q", base, t.host)
	}
	t.job = ta.Job{Path: base, Host: host, WithHost: t.alone}
	return nil
}

// run starts the agent and shows both sides until it has exited.
func (t *trial) run(dir string, words []string) error {
	program, err := filepath.Abs(words[0])
	if err != nil {
		return err
	}
	spec := child.Spec{Path: program, Args: words, Env: os.Environ(), Dir: dir, UID: -1, GID: -1}
	t.agent, err = child.Start(spec, func(events []child.Event) {
		for _, e := range events {
			t.events <- e
		}
	})
	if err != nil {
		return err
	}
	t.say("=", fmt.Sprintf("process %d: %s", t.agent.PID(), strings.Join(words, " ")))
	timer := time.NewTimer(t.timeout)
	defer timer.Stop()
	late := false
	for {
		select {
		case e := <-t.events:
			if exited, ok := e.(child.Exited); ok {
				t.say("=", exited.Status)
				return t.verdict(late)
			}
			t.hear(e)
		case line, more := <-t.typed:
			if !more {
				t.typed = nil
				t.leave()
				continue
			}
			t.send(line)
		case <-timer.C:
			late = true
			_ = t.agent.Signal(9)
		}
	}
}

// verdict returns an error unless everything went as it should.
func (t *trial) verdict(late bool) error {
	switch {
	case late:
		return fmt.Errorf("the agent was killed after %v", t.timeout)
	case len(t.open) > 0:
		return fmt.Errorf("%d recipients have no report", len(t.open))
	}
	return nil
}

// hear shows what the agent said, and answers its first #hungry.
func (t *trial) hear(e child.Event) {
	switch e := e.(type) {
	case child.Stderr:
		t.say("!", string(e))
	case child.Line:
		t.say("<", describeLine(ta.Line(e)))
		switch {
		case e.Kind == ta.Reported:
			delete(t.open, e.Report.Offset)
			if e.Report.Status == ta.DeferAll {
				clear(t.open)
			}
			if t.given && len(t.open) == 0 {
				t.leave()
			}
		case e.Kind == ta.Hungry && t.job.Path != "" && !t.given:
			t.given = true
			t.send(strings.TrimSuffix(string(ta.AppendJob(nil, t.job)), "\n"))
		case e.Kind == ta.Hungry && t.given, e.Kind == ta.Resync:
			t.leave() // the agent has ended the job line
		}
	}
}

// describeLine returns a line of the agent as it is shown: a report with its fields on
// lines of their own.
func describeLine(line ta.Line) string {
	switch line.Kind {
	case ta.Hungry:
		return "#hungry"
	case ta.Resync:
		return "#resync " + line.Path
	case ta.Malformed:
		return line.Text + " (" + line.Reason + ")"
	case ta.Comment:
		return line.Text
	}
	r := &line.Report
	parts := []string{fmt.Sprintf("%d/%d %s", r.Message, r.Offset, r.Status)}
	if r.Retry.Given {
		sign := ""
		if r.Retry.Relative {
			sign = "+"
		}
		parts[0] += " " + sign + strconv.FormatInt(r.Retry.Seconds, 10)
	}
	n := r.Notary
	for _, part := range []string{n.Recipient(), n.Action(), n.Code(), n.Diagnostic(), n.Remote(), n.Agent()} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if text := strings.TrimRight(r.Text, "\r"); text != "" {
		parts = append(parts, strings.ReplaceAll(text, "\r", "\n      | "))
	}
	return strings.Join(parts, "\n      ")
}

func (t *trial) send(line string) {
	if t.closed {
		return
	}
	t.say(">", strings.ReplaceAll(line, "\t", " TAB "))
	if err := t.agent.Send([]byte(line + "\n")); err != nil {
		t.say("=", err.Error())
	}
}

// leave asks the agent to exit, as the scheduler does.
func (t *trial) leave() {
	if t.closed {
		return
	}
	t.send("")
	t.say(">", "(end of file)")
	t.closed = true
	t.agent.CloseWrite()
}

func (t *trial) say(who, text string) { fmt.Fprintf(t.out, "%s %s\n", who, printable(text)) }

// readLines sends the lines of a reader to a channel, and then closes the channel.
func readLines(in io.Reader, to chan<- string) {
	defer close(to)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		to <- lines.Text()
	}
}
