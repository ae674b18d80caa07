package rule

import (
	"slices"
	"strings"
	"testing"
)

// TestMatch: patterns are tried in sequence and settings picked up on the way;
// the first command ends it, but */* never does (the manual, CONFIGURATION
// FILE).
func TestMatch(t *testing.T) {
	clause := func(pattern string, names ...string) Clause {
		c := Clause{}
		c.Channel, c.Host, _ = strings.Cut(pattern, "/")
		for _, name := range names {
			c.Settings = append(c.Settings, Setting{Name: name, Apply: func(*Params) {}})
		}
		return c
	}
	clauses := []Clause{
		clause("*/*", "interval", "command"),
		clause("smtp/*.org", "maxring"),
		clause("smtp/mx.*", "overfeed", "command"),
		clause("smtp/*", "command"),
		clause("*/mx.org", "command"),
		clause("local/*", "expiry"),
	}
	tests := []struct{ channel, host, want string }{
		{"smtp", "mx.org", "*/* smtp/*.org smtp/mx.*"},
		{"smtp", "a.org", "*/* smtp/*.org smtp/*"},
		{"smtp", "a.net", "*/* smtp/*"},
		{"uucp", "mx.org", "*/* */mx.org"},
		{"local", "-", "*/* local/*"},
		{"fax", "-", "*/*"},
	}
	for _, tt := range tests {
		var got []string
		for _, c := range Match(clauses, tt.channel, tt.host) {
			got = append(got, c.Channel+"/"+c.Host)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s/%s: matched by %v, want %s", tt.channel, tt.host, got, tt.want)
		}
	}
}

// TestExpand: scheduler.cf(5), command.
func TestExpand(t *testing.T) {
	env := map[string]string{"LOGDIR": "/var/log", "EMPTY": "", "TWO": "a b"}
	tests := []struct{ command, want string }{
		{"smtp -srl ${LOGDIR}/smtp $host", "smtp -srl /var/log/smtp mx.org"},
		{"smtp -l $LOGDIR/smtp", "smtp -l /var/log/smtp"}, // the manual's example; ZMailer left it as it was
		{"sm -c $channel uucp", "sm -c smtp uucp"},
		{"x $channel-$host ${channel}${host}", "x smtp-mx.org smtpmx.org"},
		{"x --n=${sessions}", "x --n=3"},
		{"x ${NOBODY} $NOBODY", "x  $NOBODY"},
		{"x $EMPTY ${EMPTY}y", "x  y"},
		{"x ${host", "x ${host"}, // not closed; ZMailer dropped the rest of the word
		{"x $ $$ $5 a$", "x $ $$ $5 a$"},
		{"x $hostile", "x $hostile"},
		{"MALLOC_DEBUG_=1 OTHER=${LOGDIR}/x cmd a", "MALLOC_DEBUG_=1 OTHER=/var/log/x cmd a"},
	}
	for _, tt := range tests {
		got := Expand(strings.Fields(tt.command), env, "smtp", "mx.org", 3)
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s\n got %q\nwant %s", tt.command, got, tt.want)
		}
	}
	// A value with blanks remains one word.
	if got := Expand([]string{"${TWO}"}, env, "smtp", "mx.org", 1); !slices.Equal(got, []string{"a b"}) {
		t.Errorf("got %q", got)
	}
}

// TestExpandValueIsNotExpanded: the value of a variable or a host is not
// expanded again.
func TestExpandValueIsNotExpanded(t *testing.T) {
	got := Expand([]string{"$A", "$host"}, map[string]string{"A": "$host"}, "smtp", "$A", 1)
	if !slices.Equal(got, []string{"$host", "$A"}) {
		t.Errorf("got %q", got)
	}
}
