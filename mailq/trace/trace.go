// Package trace finds in the scheduler's event log what happened to a message, and
// prints it (scheduler-events(5), mailq(1)).
//
//	Files ──► Read: events of the matching messages ──► Print
//
// The user names a spoolid, a Message-Id, a file or an address. The log is read
// twice: first to find the spoolids of the messages, then their events. If a
// message was sent elsewhere (REQUEUE, REROUTE), the new messages match too.
package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
)

// Event is a line of the event log.
type Event struct {
	Time       time.Time `json:"time"`
	Event      string    `json:"event"`
	SpoolID    string    `json:"spoolid"`
	MessageID  string    `json:"message_id"`
	Sender     string    `json:"sender"`
	Recipient  string    `json:"recipient"`
	Original   string    `json:"original"`
	Alias      string    `json:"alias"`
	Channel    string    `json:"channel"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Command    string    `json:"command"`
	Peer       string    `json:"peer"`
	Status     string    `json:"status"`
	Class      int       `json:"class"`
	DSN        string    `json:"dsn"`
	Text       string    `json:"text"`
	Since      time.Time `json:"since"`
	Delay      float64   `json:"delay"`
	Attempts   int       `json:"attempts"`
	Next       time.Time `json:"next"`
	Order      string    `json:"order"`
	By         string    `json:"by"`
	Because    string    `json:"because"`
	To         string    `json:"to"`
	New        string    `json:"new"`
	NewSpoolID string    `json:"new_spoolid"`
	File       string    `json:"file"`
	Size       int       `json:"size"`
	Recipients int       `json:"recipients"`
	Failed     int       `json:"failed"`
	Lines      int       `json:"lines"`

	raw []byte // the line
}

// Files returns the event log and the rotated logs, oldest first. The name of a rotated
// log begins with that of the log and a dot or a hyphen.
func Files(log string) ([]string, error) {
	if _, err := os.Stat(filepath.Dir(log)); err != nil {
		return nil, err
	}
	type dated struct {
		name string
		at   time.Time
	}
	var found []dated
	for _, pattern := range []string{"", ".*", "-*"} {
		names, err := filepath.Glob(quoteMeta(log) + pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				found = append(found, dated{name, info.ModTime()})
			}
		}
	}
	if len(found) == 0 {
		return nil, &fs.PathError{Op: "open", Path: log, Err: fs.ErrNotExist}
	}
	slices.SortStableFunc(found, func(a, b dated) int {
		switch { // what is being written is last
		case a.name == log:
			return 1
		case b.name == log:
			return -1
		}
		return a.at.Compare(b.at)
	})
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = f.name
	}
	return names, nil
}

// quoteMeta keeps a path from being read as a pattern.
func quoteMeta(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// maxLine bounds a line of the log in bytes. Longer lines are not events.
const maxLine = 64 << 10

// each calls do with each event of the files whose line contains one of the words,
// regardless of case. The words are in lower case; do may add to them.
// damaged is told of files that cannot be read to their end; the rest of the files is
// read all the same.
func each(files []string, words func() [][]byte, do func(*Event), damaged func(error)) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = eachIn(f, words, do)
		f.Close()
		if err != nil {
			damaged(fmt.Errorf("%s: %w", name, err))
		}
	}
	return nil
}

// unreadable are the suffixes of files that another program than gzip has compressed.
var unreadable = []string{".xz", ".zst", ".bz2", ".lzma", ".lz", ".lz4", ".lzo", ".br", ".Z", ".zip", ".7z"}

func eachIn(f *os.File, words func() [][]byte, do func(*Event)) error {
	var in io.Reader = f
	if strings.HasSuffix(f.Name(), ".gz") {
		unpacked, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		in = unpacked
	}
	lines := bufio.NewReaderSize(in, maxLine)
	var lower []byte
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue // too long to be an event
		case err == io.EOF: // a line without an end is still being written
			return nil
		case err != nil:
			return err
		}
		lower = appendLower(lower[:0], line)
		if !slices.ContainsFunc(words(), func(word []byte) bool { return bytes.Contains(lower, word) }) {
			continue
		}
		e := new(Event)
		if json.Unmarshal(line, e) != nil || e.Event == "" {
			continue
		}
		e.raw = bytes.Clone(bytes.TrimRight(line, "\n"))
		do(e)
	}
}

// search is what the user named, and the messages that were found.
type search struct {
	what    string
	number  string // of the control file if what is a file name; else ""
	ids     map[string]bool
	whole   map[string]bool // ids of messages that match with all their recipients
	renamed map[string]bool // ids of messages with the recipients that an alias made of the address
	copies  map[string]bool // spoolids of messages that others became when they were sent elsewhere
	files   map[string]bool // control files of such messages, in logs without their spoolids
	mailIDs map[string]bool // Message-Ids of messages that went to the router
	words   [][]byte        // a matching line contains at least one of them
}

// Read returns the events about what the user named, in the order of the files. It calls
// warn for each file that is not searched, or only up to where it is damaged.
func Read(files []string, what string, warn func(error)) ([]*Event, error) {
	var readable []string
	for _, name := range files {
		if slices.Contains(unreadable, filepath.Ext(name)) {
			warn(fmt.Errorf("%s is not searched: mailq reads files compressed by gzip only", name))
		} else {
			readable = append(readable, name)
		}
	}
	files = readable
	s := &search{what: what, ids: map[string]bool{}, whole: map[string]bool{}, renamed: map[string]bool{}, copies: map[string]bool{}, files: map[string]bool{}, mailIDs: map[string]bool{}}
	if base := path.Base(what); base != "" && strings.Trim(base, "0123456789") == "" {
		s.number = base
		s.want(base)
	} else {
		s.want(ctlfile.Unbracketed(what))
	}
	words := func() [][]byte { return s.words }
	if err := each(files, words, s.find, func(err error) { warn(fmt.Errorf("searched only in part: %w", err)) }); err != nil {
		return nil, err
	}
	if len(s.ids) == 0 && s.number == "" {
		return nil, nil
	}
	s.words = [][]byte{[]byte(`"host":`), []byte(`"file":`)} // events of threads and files
	for id := range s.ids {
		s.want(id)
	}
	var events []*Event
	alive := make(map[[2]string]map[string]bool) // messages, by channel and host
	inQueue := make(map[string]*Event)           // the last event of each message, by its number
	err := each(files, words, func(e *Event) {
		s.follow(inQueue, e)
		if s.about(e) || e.SpoolID == "" && inQueue[path.Base(e.File)] != nil {
			events = append(events, e)
			note(alive, e)
			noteInQueue(inQueue, e)
		} else if e.SpoolID == "" && len(alive[[2]string{e.Channel, e.Host}]) > 0 && e.Host != "" {
			events = append(events, e)
		}
	}, func(error) {})
	return events, err
}

// note records in alive which messages have mail for which channel and host.
func note(alive map[[2]string]map[string]bool, e *Event) {
	name := [2]string{e.Channel, e.Host}
	switch {
	case ends(e):
		for _, ids := range alive {
			delete(ids, e.SpoolID)
		}
	case e.Event == "arrival" && e.Host != "":
		if alive[name] == nil {
			alive[name] = make(map[string]bool)
		}
		alive[name][e.SpoolID] = true
	}
}

// noteInQueue records in inQueue which messages are in the queue.
func noteInQueue(inQueue map[string]*Event, e *Event) {
	switch number := numberOf(e.SpoolID); {
	case e.Event == "quarantined":
		delete(inQueue, path.Base(e.File))
	case ends(e):
		delete(inQueue, number)
	case number != "":
		inQueue[number] = e
	}
}

// follow adds to the search the new spoolid of a message that has lost its message file: it
// arrives again, with the time of its control file in its spoolid.
func (s *search) follow(inQueue map[string]*Event, e *Event) {
	if e.Event != "arrival" {
		return
	}
	if last := inQueue[numberOf(e.SpoolID)]; last != nil && last.continuesAs(e) && s.ids[last.SpoolID] && !s.ids[e.SpoolID] {
		s.ids[e.SpoolID], s.whole[e.SpoolID] = true, s.whole[last.SpoolID]
		s.want(e.SpoolID)
	}
}

// continuesAs reports whether an arrival is that of the same message with a new spoolid.
func (e *Event) continuesAs(arrival *Event) bool {
	return e.SpoolID != arrival.SpoolID && e.MessageID == arrival.MessageID && e.Sender == arrival.Sender &&
		numberOf(e.SpoolID) == numberOf(arrival.SpoolID)
}

// ends reports whether the message is not in the queue after the event.
func ends(e *Event) bool {
	switch e.Event {
	case "end", "parked", "gone", "hold", "quarantined":
		return e.SpoolID != ""
	}
	return false
}

// want adds a text to the words.
func (s *search) want(text string) {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) == nil {
		s.words = append(s.words, appendLower(nil, bytes.Trim(quoted.Bytes(), "\"\n")))
	}
}

// appendLower appends text with ASCII letters in lower case.
func appendLower(b, text []byte) []byte {
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// find records the message of an event if it matches.
func (s *search) find(e *Event) {
	if e.SpoolID == "" {
		return
	}
	all := strings.EqualFold(e.Sender, s.what) || e.SpoolID == s.what || s.copies[e.SpoolID] ||
		e.MessageID != "" && strings.EqualFold(ctlfile.Unbracketed(e.MessageID), ctlfile.Unbracketed(s.what)) ||
		s.number != "" && numberOf(e.SpoolID) == s.number ||
		e.Event == "arrival" && s.files[e.File] || e.MessageID != "" && s.mailIDs[e.MessageID]
	wasWhat := strings.EqualFold(e.Original, s.what) || strings.EqualFold(e.Alias, s.what)
	if wasWhat {
		s.renamed[e.SpoolID+" "+e.Recipient] = true
	}
	if !all && !wasWhat && !strings.EqualFold(e.Recipient, s.what) && !s.ids[e.SpoolID] {
		return
	}
	if !s.ids[e.SpoolID] {
		s.ids[e.SpoolID] = true
		s.want(e.SpoolID)
	}
	s.whole[e.SpoolID] = s.whole[e.SpoolID] || all
	if e.NewSpoolID != "" {
		s.copies[e.NewSpoolID] = true
		s.want(e.NewSpoolID)
		return
	}
	for file := range strings.FieldsSeq(e.New) {
		if control, ok := strings.CutPrefix(file, "transport/"); ok {
			s.files[control] = true
			s.words = append(s.words, appendLower(nil, []byte(`"file":"`+control+`"`)))
		} else if e.MessageID != "" && !s.mailIDs[e.MessageID] {
			s.mailIDs[e.MessageID] = true
			s.want(e.MessageID)
		}
	}
}

// about reports whether an event is part of the result.
func (s *search) about(e *Event) bool {
	if e.SpoolID == "" {
		return s.number != "" && e.File != "" && path.Base(e.File) == s.number
	}
	return s.ids[e.SpoolID] && (s.whole[e.SpoolID] || e.Recipient == "" || strings.EqualFold(e.Recipient, s.what) ||
		s.renamed[e.SpoolID+" "+e.Recipient])
}

// numberOf returns the number of the control file in a spoolid. Eight or thirteen
// characters for the time follow it.
func numberOf(spoolid string) string {
	digits := strings.TrimPrefix(spoolid, "S")
	for i, c := range digits {
		if c < '0' || c > '9' {
			return digits[:i]
		}
	}
	return digits
}
