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
