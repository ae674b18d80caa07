package xfer

import (
	"strings"
	"testing"
)

func TestLinesAreReadAsTheyAreWritten(t *testing.T) {
	push := Push{Tag: 17, Control: 412, Message: 2048, ModifiedAt: 1795354801000000000}
	if got, err := ParsePush(push.String()); err != nil || got != push {
		t.Errorf("%+v, %v", got, err)
	}
	reply := Reply{Code: Later, Tag: 18, Text: "no space\nleft"}
	if got, err := ParseReply(reply.String()); err != nil || got != (Reply{Later, 18, "no space left"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, line := range []string{"", "PUSH", "PUSH 1 2 3", "PUSH 1 2 3 4 5", "PUSH 1 2 -3 4", "PUSH 1 99999999999 3 4", "HAVE 1 2 3 4"} {
		if _, err := ParsePush(line); err == nil {
			t.Errorf("%q is a push", line)
		}
	}
	long := Reply{Code: Refused, Tag: 1, Text: strings.Repeat("x", 2*MaxLine)}
	if n := len(long.String()); n >= MaxLine {
		t.Errorf("a reply of %d bytes", n)
	}
}
