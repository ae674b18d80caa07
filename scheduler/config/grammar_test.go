package config

import (
	"strings"
	"testing"
)

func TestForm(t *testing.T) {
	for _, c := range []struct{ about, text, want string }{
		{"a clause on one line", "hold/* interval=5m command=hold", `1: hold/* interval="5m" command="hold"`},
		{"a keyword a line", "hold/*\n  interval=5m\n\tcommand=hold", `1: hold/* interval="5m" command="hold"`},
		{"blanks around =", "x interval = 1m idlemax= 2m expiry =3d", `1: x/* interval="1m" idlemax="2m" expiry="3d"`},
		{"names in any case", "x INTERVAL=1m QueueOnly", `1: x/* interval="1m" queueonly=""`},
		{"aliases", "x maxtransport=1 maxtransports=2 maxchannels=3 maxrings=4", `1: x/* maxta="1" maxta="2" maxchannel="3" maxring="4"`},
		{"comments between keywords", "# c\nx\n# c\n  # c\n\n \n interval=1m # c\n\n#c\n\texpiry=3d", `2: x/* interval="1m" expiry="3d"`},
		{"a comment right after a name", "smtp/foo#bar\n queueonly#x\n ageorder", `1: smtp/foo queueonly="" ageorder=""`},
		{"# and ; and quotes within a bare value", `x command=a#b;"c"`, `1: x/* command="a#b;\"c\""`},
		{"a value that begins with #", "x command=#a", `1: x/* command="#a"`},
		{"a quoted value", `x command="a  b;#c" queueonly`, `1: x/* command="a  b;#c" queueonly=""`},
		{"backslashes in a quoted value", `x command="a\b \\" queueonly`, `1: x/* command="a\\b \\\\" queueonly=""`},
		{"a value over several lines", "x command=\"foo \\\n\tbar\\\nbaz\"\ny", "1: x/* command=\"foo \\tbarbaz\"\n4: y/*"},
		{"the next word right after a closing quote", `x command="a"interval=1m`, `1: x/* command="a" interval="1m"`},
		{"lines that end as on DOS", "x\r\n\tinterval=1m\r\n\t# c\r\n\tcommand=\"a \\\r\n\tb\"\r\n\r\ny\r\n\tageorder\r\n",
			"1: x/* interval=\"1m\" command=\"a \\tb\"\n7: y/* ageorder=\"\""},
		{"a mark of the encoding", "\ufeffx interval=1m", `1: x/* interval="1m"`},
		{"the split at the first slash", "a/b/c interval=1m\nd interval=1m\ne/ interval=1m", "1: a/b/c interval=\"1m\"\n2: d/* interval=\"1m\"\n3: e/* interval=\"1m\""},
		{"an equals sign in a host", "x400/a=b;c=d interval=1m", `1: x400/a=b;c=d interval="1m"`},
		{"a line without an end", "x interval=1m", `1: x/* interval="1m"`},
		{"a line of 20000 bytes", "x" + strings.Repeat(" ", 20000) + "interval=1m", `1: x/* interval="1m"`},
		{"a PARAM within a clause", "x\n interval=1m\nPARAMagent-timeout=1h\n expiry=3d", `1: x/* interval="1m" expiry="3d"`},
		{"a keyword right of a PARAM", "x\nPARAMagent-timeout=1h expiry=3d", `1: x/* expiry="3d"`},
	} {
		file, err := Parse("f", []byte(c.text), debian(0))
		if err != nil {
			t.Errorf("%s: %v", c.about, err)
			continue
		}
		if got := strings.TrimSuffix(clauses(file), "\n"); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.about, got, c.want)
		}
	}
}

// ZMailer did not count the lines that a value goes on over.
func TestContinuedLinesCount(t *testing.T) {
	_, err := Parse("f", []byte("x command=\"a \\\n b \\\n c\"\n\n  bad"), debian(0))
	if err == nil || !strings.HasPrefix(err.Error(), "f:5:3: ") {
		t.Error(err)
	}
}
