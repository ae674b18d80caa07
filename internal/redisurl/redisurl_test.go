package redisurl

import (
	"strings"
	"testing"
)

// A password in which "/", "?" or "@" is not escaped is in no error.
func TestErrorsDoNotShowThePassword(t *testing.T) {
	for _, s := range []string{
		"redis://u:sec/ret@host:1/0", "redis://u:sec?ret@host:1/0", "redis://u:sec@ret/x@host/0",
		"redis://u:sec%zzret@host", "redis://u:secret@/0",
	} {
		if _, err := Parse(s); err == nil || strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "ret") {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestMaskShowsNoPassword(t *testing.T) {
	for s, want := range map[string]string{
		"redis://u:secret@h:1/0":     "redis://***@h:1/0",
		"rediss://:sec@ret@h":        "rediss://***@h",
		"redis://secret@h":           "redis://***@h",
		"rediss//u:secret@h":         "***@h",
		"u:secret@h":                 "***@h",
		"rediss:u:secret@h":          "***@h",
		"Redis://u:secret@h?ttl=@1s": "Redis://***@1s",
		"redis://h:1":                "redis://h:1",
	} {
		if got := Mask(s); got != want {
			t.Errorf("%s becomes %s, want %s", s, got, want)
		}
	}
}

func TestNodesIsANumber(t *testing.T) {
	if a, err := Parse("redis://h/0?nodes=3&ttl=5s"); err != nil || a.Nodes != 3 {
		t.Errorf("%+v, %v", a, err)
	}
	for _, s := range []string{"0", "-1", "1001", "x", ""} {
		if _, err := Parse("redis://h/0?nodes=" + s); err == nil {
			t.Errorf("nodes=%s is accepted", s)
		}
	}
}

// TestSentinels: they are given as go-redis expects it. A list of servers is refused.
func TestSentinels(t *testing.T) {
	a, err := Parse("rediss://h/2?master_name=m&addr=h2&addr=[::1]:7")
	if err != nil || strings.Join(a.Addrs, " ") != "h:6379 h2:6379 [::1]:7" || a.Master != "m" || a.DB != 2 || !a.TLS {
		t.Errorf("%+v, %v", a, err)
	}
	for _, s := range []string{"redis://h,h2/0", "redis://h/0?addr=h2", "redis://h/0?addr=", "redis://h/0?master=m"} {
		if a, err := Parse(s); err == nil {
			t.Errorf("%s is accepted: %+v", s, a)
		}
	}
}
