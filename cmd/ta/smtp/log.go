package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// openLog is the protocol log: each line has the pid, the number of the
// connection, and the time, and is one write, so that several agents can share
// the file. With debug it goes to the scheduler's log too. It is nil where
// nobody wants it.
func openLog(name string, debug int, stderr io.Writer) (func(conn int, direction, line string), error) {
	var file io.Writer
	var err error
	if name != "" {
		var f *os.File
		if f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640); err == nil {
			file = f
		}
	}
	if file == nil && debug == 0 {
		return nil, err
	}
	pid := strconv.Itoa(os.Getpid())
	return func(conn int, direction, line string) {
		if file != nil {
			_, _ = io.WriteString(file, fmt.Sprintf("%s %d %s %s %s\n",
				pid, conn, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), direction, line))
		}
		if debug > 0 {
			_, _ = io.WriteString(stderr, fmt.Sprintf("# smtp: %d %s %s\n", conn, direction, line))
		}
	}, err
}
