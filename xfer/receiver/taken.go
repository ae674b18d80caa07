package receiver

// Taken recipients: their ids, so that a repeated push takes none twice.

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// takenName is the file of ids, below transport/.xfer. It has a line for each message that
// was taken: the time (seconds since 1970), the spoolid that the message has here, and the
// ids of its recipients (ctlfile.Origin):
//
//	1795354801 S88XMVQKNOA mx1/S258367XMVQKNOA/109 mx1/S258367XMVQKNOA/156
//
// A last line without LF is what a crash has left of one, and does not count: a message is
// taken with all its recipients or not at all.
const takenName = "taken"

// keepTaken is how long an id is kept, a week: a push that is repeated later makes a second copy.
const keepTaken = 7 * 24 * time.Hour

// maxTaken bounds the size of the file.
const maxTaken = 1 << 40

// idHash stands for an id in memory: a node may have taken millions.
type idHash [16]byte

func hashOf(id string) idHash {
	sum := sha256.Sum256([]byte(id))
	return idHash(sum[:16])
}

// taken is the file and its contents. Only the committer uses it.
type taken struct {
	path  string
	ids   map[idHash]struct{}
	since time.Time // when the file was written as a whole
}

// openTaken reads the file and writes it anew, without the ids that are too old and what a
// crash has left. Ids stay while the control file of their message is staged beside it. The messages are the spoolids in it.
func openTaken(path string) (t *taken, messages map[string]bool, err error) {
	text, err := postoffice.ReadFile(postoffice.WorkingDir, path, maxTaken)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the taken recipients: %w", err)
	}
	// What a power cut has not written reads as NULs.
	if zero := bytes.IndexByte(text, 0); zero >= 0 {
		text = text[:zero]
	}
	text = text[:1+bytes.LastIndexByte(text, '\n')]
	t = &taken{path: path, ids: make(map[idHash]struct{}), since: time.Now()}
	messages = make(map[string]bool)
	oldest := t.since.Add(-keepTaken).Unix()
	staged, err := postoffice.ReadNames(filepath.Dir(path))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the taken recipients: %w", err)
	}
	var kept bytes.Buffer
	for line := range strings.Lines(string(text)) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(words) < 3 {
			continue
		}
		if seconds, err := strconv.ParseInt(words[0], 10, 64); err != nil || seconds < oldest && !slices.Contains(staged, words[1]) {
			continue
		}
		kept.WriteString(line)
		messages[words[1]] = true
		t.remember(words[2:])
	}
	if err := t.write(kept.Bytes()); err != nil {
		return nil, nil, fmt.Errorf("writing the taken recipients: %w", err)
	}
	return t, messages, nil
}

// write replaces the file.
func (t *taken) write(text []byte) error {
	if err := postoffice.ReplaceFile(postoffice.WorkingDir, t.path+".new", t.path, text); err != nil {
		return err
	}
	return postoffice.SyncDir(filepath.Dir(t.path))
}

// rewriteAfter is how often the file is written anew.
const rewriteAfter = 24 * time.Hour

// old reports whether it is time to read the file again, so that it does not only grow.
func (t *taken) old() bool { return time.Since(t.since) > rewriteAfter }

func (t *taken) has(id string) bool {
	_, found := t.ids[hashOf(id)]
	return found
}

func (t *taken) remember(ids []string) {
	for _, id := range ids {
		t.ids[hashOf(id)] = struct{}{}
	}
}

// add appends a line for each message and makes them durable. After an error it is not known
// which of them are in the file.
func (t *taken) add(batch []*arrival) error {
	var lines bytes.Buffer
	for _, a := range batch {
		fmt.Fprintf(&lines, "%d %s %s\n", time.Now().Unix(), a.item.SpoolID(), strings.Join(a.ids, " "))
	}
	file, err := postoffice.OpenFile(t.path, unix.O_WRONLY|unix.O_CREAT)
	if err != nil {
		return fmt.Errorf("opening the taken recipients: %w", err)
	}
	n, err := postoffice.Append(file.FD(), lines.Bytes())
	if err == nil && n < lines.Len() {
		err = unix.ENOSPC
	}
	if err == nil {
		err = postoffice.SyncData(file.FD())
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("writing the taken recipients: %w", err)
	}
	for _, a := range batch {
		t.remember(a.ids)
	}
	return nil
}
