package agent

import (
	"slices"
	"strings"
	"testing"
)

// Spec A1.1 of the old program, in the manual's words where it has any.
func TestCommand(t *testing.T) {
	t.Setenv("TZ", "UTC")
	zenv := map[string]string{"PATH": "/bin", "ZCONFIG": "/etc/zmailer.conf", "LOGDIR": "/var/log"}
	for _, c := range []struct {
		words, args, environ string
		env                  map[string]string
	}{
		{"smtp -c smtp", "/mb/ta/smtp -c smtp", "TZ=UTC PATH=/bin ZCONFIG=/etc/zmailer.conf TA_MARKING=scheduler", zenv},
		{"FOO=bar X= /usr/bin/sh a=b", "/usr/bin/sh a=b", "FOO=bar X= TZ=UTC TA_MARKING=scheduler", nil},
		{"sub/dir", "/mb/ta/sub/dir", "TZ=UTC TA_MARKING=scheduler", nil},
		{"TZ=EET PATH=/x ta", "/mb/ta/ta", "TZ=EET PATH=/x ZCONFIG=/etc/zmailer.conf TA_MARKING=scheduler", zenv},
		{"TZONE=EET ta", "/mb/ta/ta", "TZONE=EET TZ=UTC TA_MARKING=scheduler", nil},
	} {
		path, args, environ, err := Command(strings.Fields(c.words), "/mb", c.env)
		if err != nil || len(args) == 0 || path != args[0] || strings.Join(args, " ") != c.args ||
			strings.Join(environ, " ") != c.environ {
			t.Errorf("%s: %s %q %q %v", c.words, path, args, environ, err)
		}
	}
}

// The old limit of forty words was mishandled; there is none.
func TestCommandOfManyWords(t *testing.T) {
	words := append(slices.Repeat([]string{"A=b"}, 300), "prog")
	words = append(words, slices.Repeat([]string{"arg"}, 300)...)
	_, args, environ, err := Command(words, "/mb", nil)
	if err != nil || len(args) != 301 || len(environ) < 300 {
		t.Errorf("%d arguments, %d assignments, %v", len(args), len(environ), err)
	}
}

func TestCommandWithoutProgram(t *testing.T) {
	for _, words := range [][]string{nil, {"A=b", "C=d"}, {""}} {
		if path, _, _, err := Command(words, "/mb", nil); err == nil {
			t.Errorf("%q: program %q", words, path)
		}
	}
}
