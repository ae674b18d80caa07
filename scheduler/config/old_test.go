package config

import (
	"slices"
	"strings"
	"testing"
)

// warns reports whether one of a file's warnings is this one.
func warns(f *File, want string) bool {
	return slices.ContainsFunc(f.Warnings, func(w Warning) bool { return w.String() == want })
}

// settled are the keywords whose defaults are not ZMailer's.
const settled = "interval=1m retries=1 expiry=3d overfeed=0 group=daemon command=c "

func TestWhatAnOldFileDoesDifferentlyIsSaidOnce(t *testing.T) {
	for _, c := range []struct {
		about, text string
		want        []string
	}{
		{"nothing", "*/* " + settled + "\na\nb/* jitter=1\nc", nil},
		{"defaults, at the first clause they act in", "*/* jitter=1\na command=c\nb command=c\n",
			[]string{
				"f:2:1: a/* sets no interval: it is 1m now; ZMailer waited in units of an hour",
				"f:2:1: a/* sets no retries: it is 1 1 2 3 5 8 13 21 34 now; ZMailer tried again at every sweep",
				"f:2:1: a/* sets no expiry: it is 3d now; ZMailer never gave mail up",
				"f:2:1: a/* sets no group: it is daemon now; ZMailer left the agent the scheduler's own",
				"f:2:1: a/* sets no overfeed: it is 150 now; ZMailer gave an agent one job line at a time",
			}},
		{"a default that comes too late", "a " + settled + "\nb interval=1m retries=1 group=0 overfeed=1 command=c\n*/* expiry=1d",
			[]string{"f:2:1: b/* sets no expiry: it is 3d now; ZMailer never gave mail up"}},
		{"a clause without a command before others", "smtp/a.example interval=1m\nlocal " + settled + "\nsmtp " + settled,
			[]string{"f:1:1: smtp/a.example has no command, so what it matches goes on to further clauses, " +
				"smtp/* on line 3 the first; ZMailer stopped here"}},
		{"a clause without a command that has */*'s", "*/* " + settled + "\nsmtp/*.example interval=2m\nsmtp interval=3m",
			[]string{"f:2:1: smtp/*.example has no command, so what it matches goes on to further clauses, " +
				"smtp/* on line 3 the first; ZMailer stopped here"}},
		{"a clause without any command", "a interval=1m\nb " + settled,
			[]string{"f:1:1: a/* has no command, and no later clause has one for it: what it matches will wait"}},
		{"an empty clause at the end", "b " + settled + "\na",
			[]string{"f:2:1: a/* has no command, and no later clause has one for it: what it matches will wait"}},
		{"upper-case letters", "smtp/*.EDU " + settled,
			[]string{"f:1:1: smtp/*.EDU now matches in any case; in ZMailer a pattern with upper-case letters matched nothing"}},
		{"any channel", "*/a.example " + settled,
			[]string{"f:1:1: */a.example now matches every channel; ZMailer never used such a clause"}},
		{"a range", "a/[a-c] " + settled, []string{"f:1:1: ranges and negation in [a-c] now work; in ZMailer they did not"}},
		{"a negation", "a/[^b] " + settled, []string{"f:1:1: ranges and negation in [^b] now work; in ZMailer they did not"}},
		{"a plain set", "a/[ab-] " + settled, nil},
		{"text after braces", "a/{b,c}.d " + settled, []string{`f:1:1: ".d" after the braces now counts; ZMailer ignored it`}},
		{"a flag with a 0", "a ageorder=0 " + settled, []string{"f:1:3: this is off now; ZMailer took a flag with any value for on"}},
		{"a flag with a 1", "a ageorder=1 queueonly=yes bychannel=0 " + settled, nil},
	} {
		var got []string
		for _, w := range mustParse(t, c.text).Warnings {
			got = append(got, w.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.about, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ about, text, want string }{
		{"an empty */*", "*/*\na " + settled, "f:1:1: */* sets nothing"},
		{"a keyword for a pattern", "queueonly\na " + settled,
			`f:1:1: the pattern "queueonly" is the name of a keyword; if that is meant, indent it`},
		{"a pattern without a channel", "/a " + settled, `f:1:1: the pattern "/a" names no channel and so matches nothing`},
		{"an unknown name in a command", "a " + settled + "\nb " + settled + "command=\"${NO}/x ${host} ${sessions} ${LOGDIR} $NO\"",
			"f:2:69: nothing is known as ${NO}; the agent is given nothing in its place"},
		{"an unknown name in a path", "a " + settled + "\nPARAMauthfile=${NO}/x",
			"f:2:1: zmailer.conf does not set NO; ${NO} stays as it is"},
		{"a PARAM twice", "a " + settled + "\nPARAMmailqsock=1\nPARAMmailqpath=2",
			"f:3:1: PARAMmailqpath was given before; the value here holds"},
		{"a window that cannot be", "a initialconcurrency=5 " + settled,
			"f:1:1: a/* begins with initialconcurrency=5, but maxthr=1 allows no more than that"},
		{"an unknown service", "a " + settled + "\nPARAMmailqsock=TCP:nosuch",
			`f:2:1: this machine knows no TCP service "nosuch"; port 174 is used`},
	} {
		file := mustParse(t, c.text)
		if len(file.Warnings) != 1 || file.Warnings[0].String() != c.want {
			t.Errorf("%s: got\n%v\nwant\n%s", c.about, file.Warnings, c.want)
		}
	}
}

// An ordinary user can try a file that is meant for root.
func TestOrdinaryUserCannotSwitch(t *testing.T) {
	text := "a user=root " + settled + "\nb user=mail " + settled
	file, err := Parse("f", []byte(text), debian(1000))
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Warnings) != 2 ||
		!warns(file, "f:1:3: only root can start agents as another user; they keep the scheduler's own user") ||
		!warns(file, "f:1:56: only root can start agents as another group; they keep the scheduler's own group") {
		t.Errorf("got %v", file.Warnings)
	}
	if p := file.Effective(1); p.UID != -1 || p.GID != -1 {
		t.Errorf("agents run as %d, %d", p.UID, p.GID)
	}
	file, err = Parse("f", []byte("a "+settled+" user=1000 group=1000"), debian(1000))
	if err != nil || len(file.Warnings) != 1 {
		t.Errorf("as oneself: %v, %v", err, file.Warnings)
	}
	if _, err := Parse("f", []byte("a user=nosuch "+settled), debian(1000)); err == nil {
		t.Error("an unknown user is accepted")
	}
}
