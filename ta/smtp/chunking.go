// This file holds CHUNKING (RFC 3030): BDAT in place of DATA.

package smtp

import (
	"errors"
	"fmt"
)

// sendChunk sends the message as one chunk, preceded by its length.
func (t *transaction) sendChunk() error {
	t.dataSent = true
	line := fmt.Sprintf("BDAT %d LAST", t.content.size)
	t.s.trace(ours, line)
	switch err := t.content.sendTo(t.s.w, line+"\r\n", false, t.commit); {
	case err == errLeaving:
		return err
	case err != nil:
		return t.interrupted(err)
	}
	return t.takeFinalReplies(line)
}

var errNoChunking = errors.New("peer offers CHUNKING but does not know BDAT")

// rejectsChunk reports whether a reply to BDAT says that the server does not know
// it although it offered CHUNKING, and records that: the next attempt uses DATA.
// The server took the message for commands. It has not received the message, and
// the connection can no longer be used.
func (t *transaction) rejectsChunk(r Reply) bool {
	if !t.ext.chunking || r.Code != 500 && r.Code != 502 {
		return false
	}
	t.a.pool.changeRecord(t.s.target.name, func(d *Record) { d.NoChunking = true })
	return true
}
