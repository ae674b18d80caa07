package ctlfile

// Origins: where a recipient that is moved between nodes comes from.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// TransferChannel is the channel of recipients that are on their way to another node.
// Their host is the name of that node.
const TransferChannel = "xfer"

// Origin is an O line, which belongs to the r or X line before it:
//
//	O mx1/S258367XMVQKNOA/109 3
//	O mx1/S258367XMVQKNOA/109 3 0 smtp example.net
//
// It identifies a recipient on all nodes, so that a node that gets the recipient twice
// accepts it once. The longer form is that of a recipient in channel xfer, which is on
// its way to another node: it also says what the recipient was before.
type Origin struct {
	Node    string // the node where the recipient was first moved; no blanks
	SpoolID string // of the message there
	Offset  int64  // of the recipient there
	// Attempts is how often the recipient was tried there.
	Attempts int

	// The rest is set only for a recipient in channel xfer. Otherwise Channel is "".
	Class         int // of an X line; 0: it was an r line
	Channel, Host string
}

// ID returns the part that identifies the recipient: node/spoolid/offset.
func (o *Origin) ID() string { return o.Message() + "/" + strconv.FormatInt(o.Offset, 10) }

// Message returns the part that identifies the message: node/spoolid.
func (o *Origin) Message() string { return o.Node + "/" + o.SpoolID }

// String returns the value of the O line.
func (o *Origin) String() string {
	if o.Channel == "" {
		return fmt.Sprintf("%s %d", o.ID(), o.Attempts)
	}
	return fmt.Sprintf("%s %d %d %s %s", o.ID(), o.Attempts, o.Class, o.Channel, o.Host)
}

// ParseOrigin reads the value of an O line.
func ParseOrigin(value string) (o Origin, err error) {
	id, rest, _ := strings.Cut(value, " ")
	attempts, rest, moving := strings.Cut(rest, " ")
	message, offset, ok := cutLast(id)
	if o.Node, o.SpoolID, _ = cutLast(message); !ok || o.Node == "" || o.SpoolID == "" {
		return o, fmt.Errorf("origin %.200q is not node/spoolid/offset", id)
	}
	o.Offset, err = strconv.ParseInt(offset, 10, 64)
	if err == nil {
		o.Attempts, err = parseCount(attempts)
	}
	if err == nil && moving {
		err = o.parseBefore(rest)
	}
	if err != nil {
		return o, fmt.Errorf("origin %.200q: %w", value, err)
	}
	return o, nil
}

// parseBefore reads what a recipient was before it was moved.
func (o *Origin) parseBefore(s string) (err error) {
	class, rest, _ := strings.Cut(s, " ")
	if o.Class, err = parseCount(class); err != nil {
		return err
	}
	var ok bool
	if o.Channel, o.Host, ok = CutWord(rest); !ok || o.Channel == "" || o.Host == "" {
		return errors.New("no channel and host")
	}
	return nil
}

func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// cutLast cuts s at its last slash.
func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}
