// Package trace finds in the scheduler's event log what happened to a message, and
// prints it (scheduler-events(5), mailq(1)).
//
//	Files ──► Read: events of the matching messages ──► Print
//
// The user names a spoolid, a Message-Id, a file or an address. The log is read
// twice: first to find the spoolids of the messages, then their events. If a
// message was sent elsewhere (REROUTE), the new message matches too.
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
	entries, err := os.ReadDir(filepath.Dir(log))
	if err != nil {
		return nil, err
	}
	var found []fs.FileInfo
	for _, entry := range entries {
		rest, isLog := strings.CutPrefix(entry.Name(), filepath.Base(log))
		if !isLog || rest != "" && rest[0] != '.' && rest[0] != '-' {
			continue
		}
		if info, err := os.Stat(filepath.Join(filepath.Dir(log), entry.Name())); err == nil && info.Mode().IsRegular() {
			found = append(found, info)
		}
	}
	if len(found) == 0 {
		return nil, &fs.PathError{Op: "open", Path: log, Err: fs.ErrNotExist}
	}
	slices.SortStableFunc(found, func(a, b fs.FileInfo) int {
		switch filepath.Base(log) { // what is being written is last
		case a.Name():
			return 1
		case b.Name():
			return -1
		}
		return a.ModTime().Compare(b.ModTime())
	})
	names := make([]string, len(found))
	for i, info := range found {
		names[i] = filepath.Join(filepath.Dir(log), info.Name())
	}
	return names, nil
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
		lower := bytes.ToLower(line)
		e := new(Event)
		if !slices.ContainsFunc(words(), func(word []byte) bool { return bytes.Contains(lower, word) }) ||
			json.Unmarshal(line, e) != nil || e.Event == "" {
			continue
		}
		e.raw = bytes.Clone(bytes.TrimRight(line, "\n"))
		do(e)
	}
}

// search is what the user named, and the messages that were found.
type search struct {
	what    string
	number  string          // of the control file if what is a file name; else ""
	ids     map[string]bool // spoolids of the messages; true: with all their recipients
	renamed map[string]bool // ids of messages with the recipients that an alias made of the address
	threads map[string]bool // channels and hosts of the messages
	words   [][]byte        // a matching line contains at least one of them
}

// Read returns the events about what the user named, in the order of the files, and those of the
// threads of these messages. It calls warn for each file that is not searched, or only up to
// where it is damaged.
func Read(files []string, what string, warn func(error)) (events []*Event, err error) {
	var readable []string
	for _, name := range files {
		if slices.Contains(unreadable, filepath.Ext(name)) {
			warn(fmt.Errorf("%s is not searched: mailq reads files compressed by gzip only", name))
		} else {
			readable = append(readable, name)
		}
	}
	s := &search{what: what, ids: map[string]bool{}, renamed: map[string]bool{}, threads: map[string]bool{}}
	if base := path.Base(what); base != "" && strings.Trim(base, "0123456789") == "" {
		s.number = base
		s.want(base)
	} else {
		s.want(ctlfile.Unbracketed(what))
	}
	words := func() [][]byte { return s.words }
	if err := each(readable, words, s.find, func(err error) { warn(fmt.Errorf("searched only in part: %w", err)) }); err != nil {
		return nil, err
	}
	if len(s.ids) == 0 && s.number == "" {
		return nil, nil
	}
	s.words = [][]byte{[]byte(`"host":`), []byte(`"file":`)} // events of threads and files
	for id := range s.ids {
		s.want(id)
	}
	err = each(readable, words, func(e *Event) {
		if s.about(e) {
			events = append(events, e)
		}
	}, func(error) {})
	return events, err
}

// ends reports whether the message is not in the queue after the event.
func ends(e *Event) bool {
	switch e.Event {
	case "end", "gone", "hold", "quarantined":
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
		s.words = append(s.words, bytes.ToLower(bytes.Trim(quoted.Bytes(), "\"\n")))
	}
}

// find records the message of an event if it matches, and the one that it has become if it was
// sent elsewhere.
func (s *search) find(e *Event) {
	if e.SpoolID == "" {
		return
	}
	whole, known := s.ids[e.SpoolID]
	whole = whole || strings.EqualFold(e.Sender, s.what) || e.SpoolID == s.what ||
		e.MessageID != "" && strings.EqualFold(ctlfile.Unbracketed(e.MessageID), ctlfile.Unbracketed(s.what)) ||
		s.number != "" && numberOf(e.SpoolID) == s.number
	renamed := strings.EqualFold(e.Original, s.what) || strings.EqualFold(e.Alias, s.what)
	if renamed {
		s.renamed[e.SpoolID+" "+e.Recipient] = true
	}
	if !whole && !known && !renamed && !strings.EqualFold(e.Recipient, s.what) {
		return
	}
	s.ids[e.SpoolID] = whole
	if !known {
		s.want(e.SpoolID)
	}
	if e.NewSpoolID != "" {
		s.ids[e.NewSpoolID] = true
		s.want(e.NewSpoolID)
	}
}

// about reports whether an event is part of the result.
func (s *search) about(e *Event) bool {
	thread := e.Channel + "/" + e.Host
	if e.SpoolID == "" {
		return s.number != "" && path.Base(e.File) == s.number || e.File == "" && s.threads[thread]
	}
	whole, known := s.ids[e.SpoolID]
	if known && e.Event == "arrival" {
		s.threads[thread] = true
	}
	return known && (whole || e.Recipient == "" || strings.EqualFold(e.Recipient, s.what) || s.renamed[e.SpoolID+" "+e.Recipient])
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
