package spool

// What version 0.9 has left: hold/threads, the list of held and suspended threads, and
// hold/suspensions, a second list of the latter. They become records, before anything is fed.
//
//	smtp<TAB>example.org
//	smtp<TAB>example.com<TAB>suspended<TAB>SINCE<TAB>UNTIL<TAB>BY<TAB>WHY
//	# end
//
// SINCE and UNTIL are times as in RFC 3339, and "-" if there is none. The records of 0.9 say
// who holds the threads of the list. Its records of held messages stay as they are.
//
// Messages whose notice could not be written are in postman/transport and postman/queue.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	threadsFile     = "hold/threads"
	suspensionsFile = "hold/suspensions"
	// endOfThreads is the last line of a list. A list without that line was cut short.
	endOfThreads = "# end"
)

// convertHolds writes records for the threads of the lists, and then removes the lists. What was
// suspended is held until the same time. A thread that the list does not name any more was
// released; if the list is damaged, what the records name is held too.
func (h *Holds) convertHolds() (damage, err error) {
	held, suspended, found, damage, err := h.readLists()
	if !found || err != nil {
		return nil, err
	}
	records, err := h.readRecords()
	if err != nil {
		return nil, err
	}
	orders, last := make(map[Thread]*HoldRecord), uint64(0) // of the held threads
	for i := range records {
		r := &records[i]
		last = r.Number
		for _, t := range r.Threads {
			if damage != nil {
				held = append(held, t)
			}
			orders[t] = r
		}
	}
	var list []HoldRecord
	for t := range setOf(held) {
		r := orders[t]
		if r == nil {
			r = &HoldRecord{Old: true}
		}
		if r.Old {
			list = append(list, HoldRecord{HoldOrder: r.HoldOrder, Threads: []Thread{t}})
		}
	}
	for t, o := range suspended {
		if !slices.Contains(held, t) {
			list = append(list, HoldRecord{HoldOrder: o, Threads: []Thread{t}})
		}
	}
	for i := range list {
		if err := h.writeHold(&list[i]); err != nil {
			return nil, err
		}
	}
	gone := func(r *HoldRecord) bool {
		before := len(r.Threads)
		r.Threads = slices.DeleteFunc(r.Threads, func(t Thread) bool {
			return r.Old || damage == nil && !slices.Contains(held, t)
		})
		return len(r.Threads) < before
	}
	if err := h.editHolds(func(r *HoldRecord) bool { return r.Number <= last && gone(r) }); err != nil {
		return nil, err
	}
	if err := h.syncHolds(); err != nil {
		return nil, err
	}
	for _, name := range []string{threadsFile, suspensionsFile} {
		if err := postoffice.Remove(h.places.office, name); err != nil && err != unix.ENOENT {
			return nil, fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return damage, nil
}

// readLists reads the list of threads and, if it is damaged, the second list of suspensions;
// found says that there is one. Of a damaged list, all lines count that can be read.
func (h *Holds) readLists() (held []Thread, suspended map[Thread]HoldOrder, found bool, damage, err error) {
	suspended = make(map[Thread]HoldOrder)
	for _, name := range []string{threadsFile, suspensionsFile} {
		text, err := postoffice.ReadFile(h.places.office, name, math.MaxInt64)
		switch {
		case err == unix.ENOENT:
			damage = errors.Join(damage, errors.New(name+" is missing"))
			continue
		case err != nil:
			return nil, nil, false, nil, fmt.Errorf("reading %s: %w", name, err)
		}
		found = true
		list, e := parseList(string(text), suspended)
		if held = append(held, list...); e == nil && name == threadsFile {
			return held, suspended, true, nil, nil
		}
		if e != nil {
			damage = errors.Join(damage, fmt.Errorf("%s: %w", name, e))
		}
	}
	return held, suspended, found, damage, nil
}

// parseList returns the held threads of a list, and adds the suspended ones. The error says
// that the list is damaged.
func parseList(text string, suspended map[Thread]HoldOrder) (held []Thread, err error) {
	if !strings.HasSuffix(text, endOfThreads+"\n") {
		err = errors.New("its end is missing")
	}
	for line := range strings.Lines(text) {
		if strings.Trim(line, " \t\n") == "" || line[0] == '#' {
			continue
		}
		t, rest, ok := parseThread(line)
		fields := strings.Split(rest, "\t")
		switch {
		case !ok || !strings.HasSuffix(line, "\n"):
			err = fmt.Errorf("%.80q is not the line of a held or suspended thread", line)
		case rest == "":
			held = append(held, t)
		default:
			var o HoldOrder
			if len(fields) == 5 {
				o.Since, _ = time.Parse(time.RFC3339, fields[1])
				o.Until, _ = time.Parse(time.RFC3339, fields[2])
				o.By, o.Because = fields[3], fields[4]
			} else {
				err = fmt.Errorf("%.80q is damaged", line)
			}
			if before, again := suspended[t]; !again || before == (HoldOrder{}) {
				suspended[t] = o
			}
		}
	}
	return held, err
}

// takeBack moves the messages in postman/ back into the queue, the message file first. There
// they are done, and their notices are written.
func (j *janitor) takeBack() {
	q := j.s.places.pairs[Queue]
	j.slowWalk("postman/transport", func(path string) bool {
		fd, _, err := j.s.places.control.Kept().Open(j.s.places.office, "postman/transport/"+path, unix.O_RDONLY)
		if err == nil {
			postoffice.Close(fd)
			err = moveFile(j.s.places.office, "postman/queue/"+path, q.queue, path, Queue.prefixMode())
		}
		if err == nil || err == unix.ENOENT {
			err = moveFile(j.s.places.office, "postman/transport/"+path, q.transport, path, Queue.prefixMode())
		}
		if err != nil {
			j.s.warn(fmt.Sprintf("postman/transport/%s stays there, and its sender is not told: %v", path, err))
		}
		return !j.s.closed()
	})
}
