package scheduler

import (
	"strings"
	"testing"
)

// TestMatch: patterns in sequence, parameters picked up on the way, the first
// command ends it, */* never does (the manual, CONFIGURATION FILE).
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
		for _, c := range match(clauses, tt.channel, tt.host) {
			got = append(got, c.Channel+"/"+c.Host)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s/%s: matched by %v, want %s", tt.channel, tt.host, got, tt.want)
		}
	}
}
