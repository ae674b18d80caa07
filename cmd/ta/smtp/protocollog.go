package main

// The protocol log (option -l).

import (
	"fmt"
	"io"
	"os"
	"time"

	"zsched/internal/postoffice"
	"zsched/ta/smtp"
)

// openLog opens the protocol log (option -l). Each line has the pid, the number of
// the connection, the time and the spoolid, and is one write, so that several agents
// can share the file. With debug the lines go to the scheduler's log too. The
// function is nil if there is neither a file nor debug.
func openLog(name string, debug int, stderr io.Writer) (func(smtp.LogLine), error) {
	var file io.Writer
	var err error
	if name != "" {
		var f *os.File
		if f, err = postoffice.OpenLog(name, 0o640); err == nil {
			file = f
		}
	}
	if file == nil && debug == 0 {
		return nil, err
	}
	pid := os.Getpid()
	return func(l smtp.LogLine) {
		id := l.SpoolID
		if id == "" {
			id = "-"
		}
		if file != nil {
			_, _ = fmt.Fprintf(file, "%d %d %s %s %s %s\n",
				pid, l.Conn, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), id, l.Direction, l.Text)
		}
		if debug > 0 {
			_, _ = fmt.Fprintf(stderr, "# smtp: %d %s %s %s\n", l.Conn, id, l.Direction, l.Text)
		}
	}, err
}
