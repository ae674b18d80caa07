package sm

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

const mailbin = "/opt/mail/bin"

func zenv(name string) (string, bool) {
	value, ok := map[string]string{"UUX": "/usr/bin/uux", "EMPTY": "", "IFS": "${IFS}"}[name]
	return value, ok
}

// mailer parses a line that has no error.
func mailer(t *testing.T, line string) *Mailer {
	t.Helper()
	mailers, problems := Parse("sm.conf", line+"\n", mailbin, zenv)
	for _, p := range problems {
		t.Fatal(p)
	}
	name, _, _ := strings.Cut(line, " ")
	return mailers[name]
}

// The example of the old manual page.
const example = `#mailer	flags	program		arguments
 indented lines are comments too
local	mS	sm/localm	localm -r $g $u
prog	-	/bin/sh		sh -c $u
tty	rs	/usr/local/to	to $u

uucp	U	/usr/bin/uux	uux - -r -a$g -gC $h!rmail ($u)
usenet	m	sm/usenet	usenet $u
local	n	never		reached
ean	mn	/local/lib/ean/gwsmean	gwsmean -d $u
test	n	sm/test		test $u
`

func TestExampleOfTheManual(t *testing.T) {
	mailers, problems := Parse("sm.conf", example, mailbin, zenv)
	if len(problems) > 0 || len(mailers) != 7 {
		t.Fatalf("%d mailers, %v", len(mailers), problems)
	}
	two := []address{{"g@x", "Mars", "a"}, {"g@x", "Mars", "B"}}
	for _, c := range []struct {
		name, program, argv string
		flags               Flags
	}{
		{"local", "/opt/mail/bin/sm/localm", "localm -r g@x a B", Many | OwnUser},
		{"prog", "/bin/sh", "sh -c a B", 0},
		{"tty", "/usr/local/to", "to -r g@x a B", PassR | StripQuotes},
		{"uucp", "/usr/bin/uux", "uux - -r -ag@x -gC Mars!rmail (a) (B)", 0},
	} {
		m := mailers[c.name]
		if m.Program != c.program || m.Flags != c.flags || strings.Join(m.argv(two), " ") != c.argv {
			t.Errorf("%s: %s, %b, %q", c.name, m.Program, m.Flags, m.argv(two))
		}
	}
}

// The examples of sm.conf(5) have no errors, and it lists every flag.
func TestOurManual(t *testing.T) {
	text, err := os.ReadFile("../../man/sm.conf.5")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), `\-`, "-")
	_, examples, _ := strings.Cut(page, ".SH EXAMPLES\n")
	anyName := func(string) (string, bool) { return "/var/log/mail", true }
	found := 0
	for _, block := range strings.Split(examples, ".nf\n")[1:] {
		lines, _, _ := strings.Cut(block, ".fi\n")
		if strings.HasPrefix(lines, "#!") {
			continue
		}
		mailers, problems := Parse("manual", lines, mailbin, anyName)
		if found += len(mailers); len(problems) > 0 {
			t.Error(problems[0])
		}
	}
	if found != 5 {
		t.Errorf("%d mailers in the examples", found)
	}
	for _, c := range flagLetters {
		if !strings.Contains(page, "\n.B "+string(c)+"\n") {
			t.Errorf("flag %c is not in the manual", c)
		}
	}
	for _, c := range ignoredLetters {
		if !strings.Contains(page, string(c)) || c != '-' && strings.ContainsRune(flagLetters, c) {
			t.Errorf("flag %c is both with and without effect, or not in the manual", c)
		}
	}
}

func TestEachLetterIsItsFlag(t *testing.T) {
	for letters, want := range map[string]Flags{
		"m": Many, "n": NoFrom, "s": StripQuotes, "S": OwnUser, "r": PassR, "f": PassF, "P": ReturnPath,
		"X": HideDots, "E": QuoteFrom, "R": CRLF, "e": Envelope, "-": 0, "-m": Many, ignoredLetters: 0,
	} {
		if m := mailer(t, "x "+letters+" /p p"); m.Flags != want {
			t.Errorf("%s is %b, want %b", letters, m.Flags, want)
		}
	}
}

func TestArguments(t *testing.T) {
	one := []address{{"<>", "h", "Bob@X"}}
	for line, want := range map[string]string{
		"x f /p p $u":                  "p -f <> Bob@X",
		"x rf /p p $u":                 "p -f <> Bob@X",
		"x - /p $u-$h a${UUX}b$$u $U!": "Bob@X-h a/usr/bin/uuxb$u bob@x!",
		"x - /p p ${EMPTY} -":          "p  -",
	} {
		if got := strings.Join(mailer(t, line).argv(one), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestAddressesDoNotPassForOptions(t *testing.T) {
	for _, c := range []struct {
		line string
		a    address
		safe bool
	}{
		{"x - /p p $u", address{user: "-C/tmp/x@y"}, false},
		{"x - /p p $h!$u", address{user: "-x", host: "h"}, true},
		{"x - /p p $h!$u", address{user: "x", host: "-h"}, false},
		{"x - /p p -r $g", address{sender: "-x"}, false},
		{"x - /p p -u$u", address{user: "-x"}, true},
		{"x f /p p -- a", address{sender: "-x"}, true},
		{"x - /p $u a", address{user: "-x"}, true},
	} {
		if (mailer(t, c.line).unsafe(c.a) == "") != c.safe {
			t.Errorf("%s with %+v", c.line, c.a)
		}
	}
}

func TestProblemsSayWhereAndWhat(t *testing.T) {
	for text, want := range map[string]string{
		"x":                   "sm.conf:1: mailer x: missing flags (- for none)",
		"\nx m ":              "sm.conf:2: mailer x: missing program",
		"x m /p":              "sm.conf:1: mailer x: missing argument: the name by which the program is called",
		"x\tmY /p p":          "sm.conf:1: mailer x: 'Y' is not a flag",
		"x m /p p $":          "sm.conf:1: mailer x: nothing after $ ($$ is a dollar sign)",
		"x m /p p a$x":        "sm.conf:1: mailer x: $x is not known: there are $g, $h, $u, $U and ${NAME}",
		"x m /p p ${UUX":      "sm.conf:1: mailer x: ${ without }",
		"x m /p p a ${NO}":    "sm.conf:1: mailer x: \"NO\" is not set in zmailer.conf",
		"x ö /p p":            "sm.conf:1: mailer x: 'ö' is not a flag",
		"y Y /p p\nx - /p $ö": "sm.conf:1: mailer y: 'Y' is not a flag\nsm.conf:2: mailer x: $ö is not known: there are $g, $h, $u, $U and ${NAME}",
	} {
		mailers, problems := Parse("sm.conf", text, mailbin, zenv)
		var said []string
		for _, p := range problems {
			said = append(said, p.Error())
		}
		if got := strings.Join(said, "\n"); got != want || mailers["x"] != nil {
			t.Errorf("%q: %s\nwant %s", text, got, want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for from, to := range map[string]string{
		`bob`: `bob`, `"john doe"@x`: `john doe@x`, `a\"b`: `a"b`, `a\`: `a\`, `"|prog \"x\""`: `|prog "x"`, `""`: ``,
	} {
		if got := unquote(from); got != to {
			t.Errorf("%s: %s, want %s", from, got, to)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("x BB8 a a$g ${UUX}$$ \n\xff - - -")
	f.Fuzz(func(t *testing.T, text string) {
		mailers, problems := Parse("f", text, mailbin, zenv)
		for _, p := range problems {
			if lines := strings.Split(text, "\n"); p.Line < 1 || p.Line > len(lines) {
				t.Errorf("%v is outside of %q", p, text)
			}
		}
		again, _ := Parse("f", text, mailbin, zenv)
		if !reflect.DeepEqual(mailers, again) {
			t.Error("two reads differ")
		}
		for _, m := range mailers {
			if !strings.HasPrefix(m.Program, "/") || len(m.argv([]address{{"g", "h", "u"}})) == 0 {
				t.Errorf("%+v", m)
			}
		}
	})
}
