package receiver

// Origins: the recipients that were taken, so that a repeated push takes none twice.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/xfer"
)

// originsName is the file of origins, below transport/.xfer. It has a line for each
// message that was taken, and one for each DONE:
//
//	T 1795354801 3k8s7f mx1/S258367XMVQKNOA 109,156
//	D mx1/S258367XMVQKNOA 109,156
//
// The words are the time (seconds since 1970), the token of the message's files, and the
// origins, of which there are more words if the recipients come from several messages. A
// last line without LF is what a crash has left of one, and does not count: a message is
// taken with all its recipients or not at all.
const originsName = "origins"

// origins is that file and its contents. Only the committer uses it.
type origins struct {
	path  string
	keep  time.Duration
	file  *postoffice.File
	taken map[string]origin // by ID
	lines int               // in the file

	// max bounds the memory for the origins of one node, in bytes; 0: no limit. used is that
	// memory by node, and reserved that of the batch that is about to be taken.
	max            int64
	used, reserved map[string]int64
	all            int64     // the sum of used and reserved
	purgedAt       time.Time // when those that are too old were looked for last
}

// origin is a recipient that was taken.
type origin struct {
	token   string
	seconds int64
}

// maxOrigin bounds the bytes of node and spoolid in an origin.
const maxOrigin = 1000

// mayPush returns an error unless a node may push mail with the origins of another one.
func mayPush(peer *xfer.Node, origin string) error {
	if peer.MayPush(origin) {
		return nil
	}
	return fmt.Errorf("the origin is of node %.200q, and in the table of nodes here, %s neither is that node nor takes over its postoffice", origin, peer.Name)
}

// compactFrom is the number of lines from which the file is written anew when half of
// them are not needed any more.
const compactFrom = 1000

func openOrigins(path string, keep time.Duration, max int64) (*origins, error) {
	o := &origins{path: path, keep: keep, max: max, taken: make(map[string]origin), used: make(map[string]int64)}
	var err error
	if o.file, err = postoffice.OpenFile(path, unix.O_RDWR|unix.O_CREAT); err != nil {
		return nil, fmt.Errorf("opening the origins: %w", err)
	}
	size, err := o.read()
	if err == nil {
		// What a crash has cut short must not become the beginning of the next line.
		err = postoffice.Truncate(o.file.FD(), size)
	}
	if err == nil {
		_, err = postoffice.Seek(o.file.FD(), size, unix.SEEK_SET)
	}
	if err == nil {
		err = o.file.Sync() // an earlier process may have failed to do so
	}
	if err == nil {
		err = postoffice.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = o.file.Close()
		return nil, fmt.Errorf("reading the origins: %w", err)
	}
	return o, nil
}

// read reads the file and returns the size of its complete lines.
func (o *origins) read() (size int64, err error) {
	text, err := postoffice.ReadFile(postoffice.WorkingDir, o.path, 1<<40)
	if err != nil {
		return 0, err
	}
	// What a power cut has not written reads as NULs.
	if zero := bytes.IndexByte(text, 0); zero >= 0 {
		text = text[:zero]
	}
	text = text[:1+bytes.LastIndexByte(text, '\n')]
	oldest := time.Now().Add(-o.keep).Unix()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		o.lines++
		o.line(lines.Text(), oldest)
	}
	return int64(len(text)), lines.Err()
}

// line takes one line. A line that is not understood is ignored: nobody else writes
// the file.
func (o *origins) line(line string, oldest int64) {
	words := strings.Split(line, " ")
	switch {
	case len(words) >= 5 && words[0] == "T":
		seconds, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil || seconds < oldest {
			return
		}
		for i := 3; i+1 < len(words); i += 2 {
			for offset := range strings.SplitSeq(words[i+1], ",") {
				o.put(words[i]+"/"+offset, origin{words[2], seconds})
			}
		}
	case len(words) == 3 && words[0] == "D":
		for offset := range strings.SplitSeq(words[2], ",") {
			o.drop(words[1] + "/" + offset)
		}
	}
}

// add appends the recipients of messages and makes them durable.
func (o *origins) add(batch []*arrival) error {
	now := time.Now().Unix()
	var b bytes.Buffer
	for _, a := range batch {
		fmt.Fprintf(&b, "T %d %s", now, a.token)
		for _, done := range xfer.DoneWith(a.origins) {
			b.WriteString(strings.TrimPrefix(done.String(), "DONE"))
		}
		b.WriteByte('\n')
		o.lines++
	}
	if _, err := o.file.Write(b.Bytes()); err != nil {
		return err
	}
	if err := postoffice.SyncData(o.file.FD()); err != nil {
		return err
	}
	for _, a := range batch {
		for _, from := range a.origins {
			o.put(from.ID(), origin{a.token, now})
		}
	}
	return nil
}

// forget forgets recipients that will not be pushed again. If the line is lost in a
// crash, they are kept until they are too old.
func (o *origins) forget(done xfer.Done) error {
	found := false
	for _, offset := range done.Offsets {
		id := done.ID(offset)
		if _, ok := o.taken[id]; ok {
			found = true
			o.drop(id)
		}
	}
	if !found {
		return nil
	}
	o.lines++
	_, err := o.file.Write([]byte(strings.Replace(done.String(), "DONE", "D", 1) + "\n"))
	return err
}

// compact writes the file anew if most of its lines are not needed any more.
func (o *origins) compact() error {
	if o.lines < compactFrom || o.lines < 2*len(o.taken) {
		return nil
	}
	return o.rewrite()
}

// gone reports whether somebody has removed the file.
func (o *origins) gone() bool {
	now, err := postoffice.Lstat(o.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	open, err := o.file.Stat()
	return err == nil && inode(now) != inode(open)
}

// rewrite writes the file anew.
func (o *origins) rewrite() error {
	o.purge()
	var b bytes.Buffer
	lines := 0
	for id, one := range o.taken {
		cut := strings.LastIndexByte(id, '/')
		fmt.Fprintf(&b, "T %d %s %s %s\n", one.seconds, one.token, id[:cut], id[cut+1:])
		lines++
	}
	temp := o.path + ".new"
	if err := postoffice.WriteFile(postoffice.WorkingDir, temp, b.Bytes(), true); err != nil {
		return err
	}
	if err := postoffice.Replace(postoffice.WorkingDir, temp, postoffice.WorkingDir, o.path); err != nil {
		return err
	}
	if err := postoffice.SyncDir(filepath.Dir(o.path)); err != nil {
		return err
	}
	file, err := postoffice.OpenFile(o.path, unix.O_RDWR)
	if err != nil {
		return err
	}
	_ = o.file.Close()
	o.file, o.lines = file, lines
	_, err = postoffice.Seek(file.FD(), int64(b.Len()), unix.SEEK_SET)
	return err
}
