package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// warns reports whether one of a file's warnings is this one.
func warns(f *File, want string) bool {
	return slices.ContainsFunc(f.Warnings, func(w Warning) bool { return w.Error() == want })
}

// settled are the keywords whose defaults are not ZMailer's.
const settled = "interval=1m retries=1 expiry=3d overfeed=0 group=daemon command=c "

// settledButCommand is settled without a command.
const settledButCommand = "interval=1m retries=1 expiry=3d overfeed=0 group=daemon "

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ about, text, want string }{
		{"a keyword for a pattern", "queueonly\na " + settled,
			`f:1:1: the pattern "queueonly" is the name of a keyword; if it is meant as one, indent it`},
		{"an unknown name in a command", "a " + settled + "\nb " + settledButCommand + "command=\"${NO}/x ${host} ${sessions} ${LOGDIR} $channel\"",
			"f:2:59: ${NO} has no value; the agent gets nothing in its place"},
		{"an unknown name in a path", "a " + settled + "\nPARAMauthfile=${NO}/x",
			"f:2:1: zmailer.conf does not set NO; ${NO} stays as it is"},
		{"a PARAM twice", "a " + settled + "\nPARAMmailqsock=1\nPARAMmailqpath=2",
			"f:3:1: PARAMmailqpath has already been set; the value here applies"},
		{"an empty */*", "*/*\na " + settled, "f:1:1: */* sets nothing"},
		{"a clause without any command", "a interval=1m\nb " + settled,
			"f:1:1: a/* has no command, and no later clause has one for it: mail that matches it waits"},
		{"an empty clause at the end", "b " + settled + "\na",
			"f:2:1: a/* has no command, and no later clause has one for it: mail that matches it waits"},
		{"a keyword twice", "a " + settled + "jitter=1 jitter=2", "f:1:78: this clause has already set jitter; the value here applies"},
		{"a name without braces that nothing has", "a " + settledButCommand + `command="smtp -c $chanel"`,
			`f:1:59: $chanel has no value; the agent gets it as it is`},
		{"sessions that the agent does not learn", "a " + settled + "sessions=20",
			"f:1:1: in a/* sessions=20, but the command does not pass ${sessions} to the agent"},
		{"idle connections beside a limit on a site", "a " + settledButCommand + `sitemax=8 command="smtp -c $channel -l /1"`,
			"f:1:1: in a/* the command of smtp has no -1: its idle connections to a site are not counted under sitemax and clustersitemax"},
		{"agents with the group of nobody", "a user=daemon group=65534 interval=1m retries=1 expiry=3d overfeed=0 command=c",
			"f:1:1: in a/* the group is that of nobody, with which programs run for strangers, so the queue is not opened to it and the agents cannot read it; " +
				"set a group that no user has (scheduler(8), SECURITY)"},
		{"a clause after one for all hosts", "smtp/* " + settled + "\nsmtp/a.example " + settled,
			"f:2:1: smtp/a.example is never reached: smtp/* on line 1 has a command and matches everything that it matches"},
		{"an exception without a command after it", "smtp/* " + settled + "\nsmtp/a.example maxthr=1",
			"f:2:1: smtp/a.example is never reached: smtp/* on line 1 has a command and matches everything that it matches"},
		{"root's group for another user", "a interval=1m retries=1 expiry=3d overfeed=0 user=uucp group=root command=c",
			"f:1:1: in a/* the agents are not root but have group root, with which they could change files of the system; " +
				"set a group that no user has (scheduler(8), SECURITY)"},
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
	file, err = Parse("f", []byte("a interval=1m command=c user=1000 group=1000"), debian(1000))
	if err != nil || len(file.Warnings) != 0 {
		t.Errorf("as oneself: %v, %v", err, file.Warnings)
	}
	if _, err := Parse("f", []byte("a user=nosuch "+settled), debian(1000)); err == nil {
		t.Error("an unknown user is accepted")
	}
}

// What these files do is meant.
func TestNoWarnings(t *testing.T) {
	for _, text := range []string{
		"*/* maxta=100 sessions=20\na " + settledButCommand + `command="smtp --sessions $sessions" maxring=2000`,
		"smtp/a.example interval=1m\nsmtp " + settled,
		"*/* command=c\nsmtp/a.example interval=1m",
		"smtp/*.example " + settled + "\nsmtp/mx.* " + settled,
		"a " + settledButCommand + `command="c -p $5 ${LOGDIR} $LOGDIR"`,
		"smtp/a\nsmtp/b " + settled + "maxthr=5 maxring=5",
	} {
		if w := mustParse(t, text).Warnings; len(w) > 0 {
			t.Errorf("%q: %v", text, w)
		}
	}
}

func TestProgramsOfCommands(t *testing.T) {
	bin := t.TempDir()
	if err := os.Mkdir(filepath.Join(bin, "ta"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"ta/smtp": 0o755, "ta/notes": 0o644} {
		if err := os.WriteFile(filepath.Join(bin, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	file := mustParse(t, "a command=smtp\nb command=\"A=1 smpt -x\"\nc command=notes\nd command=$channel\ne\tcommand="+bin+"/ta\n"+
		"f command="+bin+"/ta/smtp\ng command=smpt\n")
	var got []string
	for _, w := range file.CheckPrograms(bin) {
		got = append(got, strings.ReplaceAll(w.Error(), bin, "BIN"))
	}
	want := []string{
		"f:2: the program of the command cannot be found: stat BIN/ta/smpt: no such file or directory",
		`f:3: the program of the command, "BIN/ta/notes", is not executable`,
		`f:5: the program of the command, "BIN/ta", is not executable`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestKeywordsThatHaveGone(t *testing.T) {
	file := mustParse(t, "PARAMMsgWriteAsync=1\na "+settled+"skew=3 Skew maxthr=2\nb "+settled+"bychannel sysnice=5\nPARAMactive-limit=many")
	var got []string
	for _, w := range file.Warnings {
		got = append(got, w.Error())
	}
	if want := []string{
		"f:1:1: PARAMmsgwriteasync has no effect", "f:2:69: skew has no effect",
		"f:3:69: bychannel has no effect", "f:3:79: sysnice has no effect",
		"f:4:1: PARAMactive-limit has no effect: all mail is in memory, about 150 bytes for each destination of a message",
	}; !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestCommandsHaveWhatThePatternGives(t *testing.T) {
	file := mustParse(t, "*/* user=3 group=4\na/* user=5\na/x.example command=\"one $channel $host\"\n"+
		"b/* user=5 command=\"one $channel $host\"\nc command=\"X=y two ${sessions}\" sessions=7\n")
	var got []string
	for _, c := range file.Commands() {
		got = append(got, fmt.Sprint(c.Place, c.Words, c.UID, c.GID))
	}
	if want := []string{"f:3 [one a x.example] 5 4", "f:5 [X=y two 7] 3 4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
