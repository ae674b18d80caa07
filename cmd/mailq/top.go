package main

// The live view: mailq top shows the totals and the threads with the most mail again and again.

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/report"
)

// What an xterm is told to show another screen, to show the usual one again, and to clear it.
const (
	otherScreen = "\x1b[?1049h"
	usualScreen = "\x1b[?1049l"
	clearScreen = "\x1b[H\x1b[J"
)

// top shows the live view until the user interrupts it.
func (p *program) top() error {
	if !p.terminal {
		return usageError("mailq top needs a terminal; mailq threads prints the same list")
	}
	if err := p.asker.find(false); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	page, err := p.page()
	if err != nil { // at once, if there is no server
		return err
	}
	fmt.Fprint(p.out, otherScreen)
	defer fmt.Fprint(p.out, usualScreen)
	pages := make(chan string)
	go p.pages(page, pages)
	for {
		fmt.Fprint(p.out, clearScreen, page)
		_ = p.out.Flush() // the end of the terminal comes as a signal
		select {
		case page = <-pages:
		case <-ctx.Done(): // also while the server is silent
			return nil
		}
	}
}

// pages asks again and again. While there is no answer, the last one stays on the screen.
func (p *program) pages(page string, to chan<- string) {
	for {
		time.Sleep(p.every)
		again, err := p.page()
		if err != nil {
			_, last, _ := strings.Cut(page, "\n")
			again = fmt.Sprintf("%s  no answer: %s\n%s", time.Now().Format(time.TimeOnly), text.Escape(err.Error()), last)
		}
		page = again
		to <- page
	}
}

// page returns what fits on the screen: the totals, what needs attention, and the threads with the
// most recipients.
func (p *program) page() (page string, err error) {
	var totals *mailq.Totals
	var threads []*mailq.Thread
	err = p.asker.session(func() (err error) {
		if totals, err = p.asker.client.Totals(); err != nil {
			return err
		}
		for t, err := range p.asker.client.Threads() {
			if err != nil {
				return err
			}
			threads = append(threads, t)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	now := time.Now()
	lines := []string{now.Format(time.TimeOnly)}
	if totals != nil {
		lines = report.Totals(totals, now)
		lines[0] = now.Format(time.TimeOnly) + "  " + lines[0]
	}
	table := report.Threads(threads, now)
	table.Sort(table.Sorted)
	rows, columns := screenSize()
	table.Limit(max(1, rows-len(lines)-2))
	for i, line := range lines {
		lines[i] = text.Escape(line)
	}
	var written bytes.Buffer
	err = table.Write(&written)
	lines = append(append(lines, ""), strings.Split(strings.TrimRight(written.String(), "\n"), "\n")...)
	for i, line := range lines {
		if wide := []rune(line); len(wide) > columns {
			lines[i] = string(wide[:columns])
		}
	}
	return strings.Join(lines, "\n"), err
}

// screenSize returns the size of the terminal.
func screenSize() (rows, columns int) {
	size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 || size.Col == 0 {
		return 24, 80
	}
	return int(size.Row), int(size.Col)
}
