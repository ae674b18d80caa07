// This file holds CHUNKING (RFC 3030): BDAT in place of DATA.

package smtp

import (
	"errors"
	"fmt"
)

// sendChunk sends the message as one chunk, whose length goes before it.
func (t *transaction) sendChunk() error {
	t.dataSent = true
	line := fmt.Sprintf("BDAT %d LAST", t.content.size)
	t.s.trace(ours, line)
	if err := t.content.sendTo(t.s.w, line+"\r\n", "", false); err != nil {
		return t.interrupted(err)
	}
	return t.takeFinalReplies(line)
}

var errNoChunking = errors.New("peer offers CHUNKING and does not know BDAT")

// rejectsChunk reports whether a reply to BDAT says that the server does not know
// it although it offered CHUNKING, and records that: the next attempt uses DATA.
// The server took the message for commands. Whatever it made of them, it has no
// message, and the connection is of no more use.
func (t *transaction) rejectsChunk(r Reply) bool {
	if !t.ext.chunking || r.Code != 500 && r.Code != 502 {
		return false
	}
	t.a.pool.changeRecord(t.s.target.name, func(d *Record) { d.NoChunking = true })
	return true
}
