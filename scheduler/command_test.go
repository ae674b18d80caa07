package scheduler

import (
	"slices"
	"strings"
	"testing"
)

// TestExpand: scheduler.cf(5), command.
func TestExpand(t *testing.T) {
	env := map[string]string{"LOGDIR": "/var/log", "EMPTY": "", "TWO": "a b"}
	tests := []struct{ command, want string }{
		{"smtp -srl ${LOGDIR}/smtp $host", "smtp -srl /var/log/smtp mx.org"},
		{"smtp -l $LOGDIR/smtp", "smtp -l /var/log/smtp"}, // the manual's example; it stayed literal
		{"sm -c $channel uucp", "sm -c smtp uucp"},
		{"x $channel-$host ${channel}${host}", "x smtp-mx.org smtpmx.org"},
		{"x --n=${sessions}", "x --n=3"},
		{"x ${NOBODY} $NOBODY", "x  $NOBODY"},
		{"x $EMPTY ${EMPTY}y", "x  y"},
		{"x ${host", "x ${host"}, // not closed; the rest of the word was dropped
		{"x $ $$ $5 a$", "x $ $$ $5 a$"},
		{"x $hostile", "x $hostile"},
		{"MALLOC_DEBUG_=1 OTHER=${LOGDIR}/x cmd a", "MALLOC_DEBUG_=1 OTHER=/var/log/x cmd a"},
	}
	for _, tt := range tests {
		got := expand(strings.Fields(tt.command), env, "smtp", "mx.org", 3)
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s\n got %q\nwant %s", tt.command, got, tt.want)
		}
	}
	// A value with blanks remains one word.
	if got := expand([]string{"${TWO}"}, env, "smtp", "mx.org", 1); !slices.Equal(got, []string{"a b"}) {
		t.Errorf("got %q", got)
	}
}

// TestExpandValueIsNotExpanded: what a variable or a host holds is not looked
// at again.
func TestExpandValueIsNotExpanded(t *testing.T) {
	got := expand([]string{"$A", "$host"}, map[string]string{"A": "$host"}, "smtp", "$A", 1)
	if !slices.Equal(got, []string{"$host", "$A"}) {
		t.Errorf("got %q", got)
	}
}
