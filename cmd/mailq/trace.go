package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"zsched/mailq/trace"
	"zsched/scheduler/config"
)

// This file implements mailq trace: it finds the event log and prints the history of
// a message.

// printTrace prints what the event log has about a message or an address. It
// works for mail that is gone, and while no scheduler runs.
func (p *program) printTrace(what string) error {
	if err := p.asker.readEnv(); err != nil {
		return err
	}
	if what == "" {
		return usageError("a message or an address is needed")
	}
	log, err := p.findEventLog()
	if err != nil {
		return err
	}
	files, err := trace.Files(log)
	if err != nil {
		return p.cannotRead(err)
	}
	var since time.Time
	if p.last > 0 {
		since = time.Now().Add(-p.last)
	}
	events, err := trace.Read(files, what, since)
	switch {
	case err != nil:
		err = p.cannotRead(err)
	case len(events) == 0:
		err = fmt.Errorf("%s has nothing about %s", strings.Join(files, ", "), what)
	}
	show := func() error { return trace.Print(p.out, events, time.Local) }
	if p.json {
		show = func() error { return trace.PrintJSON(p.out, events) }
	}
	return errors.Join(show(), err)
}

// findEventLog returns the file that --event-log or the configuration names.
func (p *program) findEventLog() (string, error) {
	if p.eventLog != "" {
		return p.eventLog, nil
	}
	if p.asker.server != "" || p.asker.address != "" {
		return "", usageError("mailq trace reads a file of this host: it takes neither --server nor -p")
	}
	name := config.DefaultFile(p.asker.env)
	file, err := config.Load(name, p.asker.env)
	if err != nil {
		return "", fmt.Errorf("it is not known where the event log is (name it with --event-log): %w", err)
	}
	place := file.Params.EventLog
	if place == "" {
		return "", fmt.Errorf("there is no event log: %s has no PARAMevent-log", name)
	}
	return place, nil
}

// cannotRead says in words why the event log cannot be read.
func (p *program) cannotRead(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("reading the event log: %w: it has the addresses of all mail, and not everybody may read it", err)
	case errors.Is(err, fs.ErrNotExist) && p.eventLog == "":
		return fmt.Errorf("reading the event log: %w: the scheduler has not written any event since PARAMevent-log was set", err)
	}
	return fmt.Errorf("reading the event log: %w", err)
}
