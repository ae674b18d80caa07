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
		"redis://u:secret@h:1/0":     "redis://u:***@h:1/0",
		"rediss://:sec@ret@h":        "rediss://:***@h",
		"redis://secret@h":           "redis://***@h",
		"rediss//u:secret@h":         "***@h",
		"u:secret@h":                 "***@h",
		"rediss:u:secret@h":          "***@h",
		"Redis://u:secret@h?ttl=@1s": "***@1s",
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
