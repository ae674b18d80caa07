package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestZenv(t *testing.T) {
	z := ParseZenv([]byte(`# comment=no
PLAIN=/a
PLAIN=/second
 INDENTED=/b
export EXPORTED=/c
SPACED =/d
BLANKS= 	/e
QUOTED="/f g"
QUOTEDBLANK= "/h" 
HALF="/i
INNER=a "b" c
TRAIL=/j 
EMPTY=
NOVALUE
=x
DOS=/k` + "\r\n" + `EQUALS=a=b
DOLLAR=${PLAIN}
LAST=/z`))
	for name, want := range map[string]string{
		"PLAIN": "/a", "BLANKS": "/e", "QUOTED": "/f g", "QUOTEDBLANK": "/h", "HALF": `"/i`,
		"INNER": `a "b" c`, "TRAIL": "/j ", "EMPTY": "", "DOS": "/k", "EQUALS": "a=b", "DOLLAR": "${PLAIN}",
		"LAST": "/z", // without a newline, which ZMailer read beyond
	} {
		if got, set := z.Get(name); !set || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, set, want)
		}
	}
	for _, name := range []string{"# comment", "INDENTED", "EXPORTED", "export EXPORTED", "SPACED", "NOVALUE", ""} {
		if got, set := z.Get(name); set || got != "" {
			t.Errorf("%q is %q, %v; want nothing", name, got, set)
		}
	}
}

func TestZenvDefaults(t *testing.T) {
	z := ParseZenv([]byte("POSTOFFICE=/po\nMAILBIN=/bin"))
	for name, want := range map[string]string{
		"MAILSHARE": "/opt/mail", "LOGDIR": "/var/log/mail", "RENDEZVOUS": "/po/.mailq.text",
		"SCHEDULERNOTIFY": "UNIX:/po/.scheduler.notify", "PATH": "", "ZCONFIG": "", "SYSLOGFLG": "",
	} {
		if got, set := z.Get(name); set || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, set, want)
		}
	}
	known := z.Known()
	if known["MAILBIN"] != "/bin" || known["LOGDIR"] != "/var/log/mail" || len(known) != len(zenvDefaults) {
		t.Errorf("known are %v", known)
	}
	var none *Zenv
	if got, set := none.Get("POSTOFFICE"); set || got != "/var/spool/postoffice" {
		t.Errorf("without a file POSTOFFICE is %q, %v", got, set)
	}
	if known := none.Known(); len(known) != len(zenvDefaults) {
		t.Errorf("without a file known are %v", known)
	}
}

func TestReadZenvNamesItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zmailer.conf")
	if err := os.WriteFile(file, []byte("A=b"), 0o600); err != nil {
		t.Fatal(err)
	}
	z, err := ReadZenv(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, set := z.Get("ZCONFIG"); set || got != file {
		t.Errorf("ZCONFIG is %q, %v", got, set)
	}
	if _, err := ReadZenv(file + "x"); !os.IsNotExist(unwrap(err)) {
		t.Error(err)
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}

func TestAgentZenv(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zmailer.conf")
	if err := os.WriteFile(file, []byte("MAILSHARE=/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	z, err := AgentZenv(file)
	if share, _ := z.Get("MAILSHARE"); err != nil || share != "/x" {
		t.Errorf("MAILSHARE of the file that is named is %q, %v", share, err)
	}
	if _, err := AgentZenv(file + ".none"); err == nil {
		t.Error("a file that is named need not be there")
	}
	if _, err := os.Stat(DefaultZenv); err == nil {
		t.Skip("this machine has a " + DefaultZenv)
	}
	z, err = AgentZenv("")
	if share, _ := z.Get("MAILSHARE"); err != nil || share != "/opt/mail" {
		t.Errorf("MAILSHARE without a file is %q, %v", share, err)
	}
}

func TestHashLevels(t *testing.T) {
	for value, want := range map[string]int{"1": 1, "2": 2, `"2"`: 2, "0": 0, "3": 0, "": 0, "12": 0, "1 ": 0} {
		levels, set := ParseZenv([]byte("SCHEDULERDIRHASH=" + value)).HashLevels()
		if levels != want || set != (want > 0) {
			t.Errorf("SCHEDULERDIRHASH=%s is %d, %v", value, levels, set)
		}
	}
	if _, set := (*Zenv)(nil).HashLevels(); set {
		t.Error("set without a file")
	}
}

func TestRouterLevels(t *testing.T) {
	for value, want := range map[string]int{"1": 1, `"1"`: 1, "2": 0, "0": 0, "": 0, "11": 0} {
		if levels := ParseZenv([]byte("ROUTERDIRHASH=" + value)).RouterLevels(); levels != want {
			t.Errorf("ROUTERDIRHASH=%s is %d", value, levels)
		}
	}
	if levels := (*Zenv)(nil).RouterLevels(); levels != 0 {
		t.Errorf("%d without a file", levels)
	}
}

func TestLogsCompletions(t *testing.T) {
	for value, want := range map[string]bool{"c": true, "abC": true, "ab": false, "": false} {
		if got := ParseZenv([]byte("SYSLOGFLG=" + value)).LogsCompletions(); got != want {
			t.Errorf("SYSLOGFLG=%s is %v", value, got)
		}
	}
}

func TestNotifySocketOfZmailerConf(t *testing.T) {
	system := debian(0)
	for value, want := range map[string]string{"/n": "UNIX:/n", "UNIX:/n": "UNIX:/n"} {
		system.Zenv = ParseZenv([]byte("SCHEDULERNOTIFY=" + value))
		file, err := Parse("f", []byte("x command=y"), system)
		if err != nil || file.Params.NotifySock.String() != want {
			t.Errorf("SCHEDULERNOTIFY=%s is %v, %v", value, file.Params.NotifySock, err)
		}
		file, err = Parse("f", []byte("x command=y\nPARAMnotifysock=/m"), system)
		if err != nil || file.Params.NotifySock.String() != "UNIX:/m" {
			t.Errorf("PARAMnotifysock does not override SCHEDULERNOTIFY: %v, %v", file.Params.NotifySock, err)
		}
	}
	if s := mustParse(t, "x command=y").Params.NotifySock; s != (Socket{}) {
		t.Errorf("without either the socket is %v", s)
	}
}

// A value that is no path would have made a socket in the working directory,
// which is transport/.
func TestNotifySocketOfZmailerConfIsAPath(t *testing.T) {
	system := debian(0)
	for value, warned := range map[string]bool{"UDP:127.0.0.1:174": true, "notify": true, "UNIX:": false, "": false} {
		system.Zenv = ParseZenv([]byte("SCHEDULERNOTIFY=" + value))
		file, err := Parse("f", []byte("*/* interval=1m retries=1 expiry=1d overfeed=0 group=0\nx command=y"), system)
		if err != nil || file.Params.NotifySock != (Socket{}) || (len(file.Warnings) > 0) != warned {
			t.Errorf("SCHEDULERNOTIFY=%s is %v, %v, %v", value, file.Params.NotifySock, file.Warnings, err)
		}
	}
}

// ZMailer skipped the character after a reference, and so one that followed at
// once.
func TestExpand(t *testing.T) {
	z := ParseZenv([]byte("A=a\nB=b\nEMPTY="))
	for text, want := range map[string]string{
		"${A}${B}": "ab", "x${A}y${B}z": "xaybz", "${EMPTY}": "", "$A": "$A", "${": "${", "${A": "${A",
		"${A}/${": "a/${", "": "", "${POSTOFFICE}": "/var/spool/postoffice",
	} {
		if got, unknown := expand(text, z.Get); got != want || unknown != nil {
			t.Errorf("%s is %s, unknown %q; want %s", text, got, unknown, want)
		}
	}
	if got, unknown := expand("${NO}${A}", z.Get); got != "${NO}a" || len(unknown) != 1 || unknown[0] != "NO" {
		t.Errorf("got %s, unknown %q", got, unknown)
	}
}
