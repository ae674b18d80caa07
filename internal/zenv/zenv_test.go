package zenv

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPostofficeOfTheCommandLine(t *testing.T) {
	for _, f := range []*File{nil, Parse([]byte("POSTOFFICE=/b\nX=y"))} {
		before := f.Value("POSTOFFICE")
		with, err := f.WithPostoffice("/a")
		if err != nil || with.Value("POSTOFFICE") != "/a" || with.Value("RENDEZVOUS") != "/a/.mailq.text" || with.Value("X") != f.Value("X") {
			t.Errorf("%v: %v, %v", f, with, err)
		}
		if f.Value("POSTOFFICE") != before {
			t.Errorf("changed: %v", f)
		}
		if same, err := f.WithPostoffice(""); same != f || err != nil {
			t.Errorf("%v: %v, %v", f, same, err)
		}
	}
}

func TestParse(t *testing.T) {
	z := Parse([]byte(`# comment=no
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
		if got, set := z.Lookup(name); !set || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, set, want)
		}
	}
	for _, name := range []string{"# comment", "INDENTED", "EXPORTED", "export EXPORTED", "SPACED", "NOVALUE", ""} {
		if got, set := z.Lookup(name); set || got != "" {
			t.Errorf("%q is %q, %v; want nothing", name, got, set)
		}
	}
}

func TestDefaults(t *testing.T) {
	z := Parse([]byte("POSTOFFICE=/po\nMAILBIN=/bin"))
	for name, want := range map[string]string{
		"MAILSHARE": "/opt/mail", "LOGDIR": "/var/log/mail", "RENDEZVOUS": "/po/.mailq.text",
		"SCHEDULERNOTIFY": "UNIX:/po/.scheduler.notify", "PATH": "", "ZCONFIG": "", "SYSLOGFLG": "",
	} {
		if got, set := z.Lookup(name); set || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, set, want)
		}
	}
	known := z.Known()
	if known["MAILBIN"] != "/bin" || known["LOGDIR"] != "/var/log/mail" || len(known) != len(defaults) {
		t.Errorf("known are %v", known)
	}
	var none *File
	if got, set := none.Lookup("POSTOFFICE"); set || got != "/var/spool/postoffice" {
		t.Errorf("without a file POSTOFFICE is %q, %v", got, set)
	}
	if known := none.Known(); len(known) != len(defaults) {
		t.Errorf("without a file known are %v", known)
	}
}

func TestReadNamesItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zmailer.conf")
	if err := os.WriteFile(file, []byte("A=b"), 0o600); err != nil {
		t.Fatal(err)
	}
	z, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, set := z.Lookup("ZCONFIG"); set || got != file {
		t.Errorf("ZCONFIG is %q, %v", got, set)
	}
	if _, err := Read(file + "x"); !os.IsNotExist(unwrap(err)) {
		t.Error(err)
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}

func TestAnUnnamedFileNeedNotExist(t *testing.T) {
	if _, err := os.Stat(DefaultPath()); err == nil {
		t.Skip("this machine has a " + DefaultPath())
	}
	z, err := Read("")
	if share := z.Value("MAILSHARE"); err != nil || share != "/opt/mail" {
		t.Errorf("MAILSHARE without a file is %q, %v", share, err)
	}
}

func TestHashLevels(t *testing.T) {
	for value, want := range map[string]int{"1": 1, "2": 2, `"2"`: 2, "0": 0, "3": 0, "": 0, "12": 0, "1 ": 0} {
		levels, set := Parse([]byte("SCHEDULERDIRHASH=" + value)).HashLevels()
		if levels != want || set != (want > 0) {
			t.Errorf("SCHEDULERDIRHASH=%s is %d, %v", value, levels, set)
		}
	}
	if _, set := (*File)(nil).HashLevels(); set {
		t.Error("set without a file")
	}
}

func TestRouterLevels(t *testing.T) {
	for value, want := range map[string]int{"1": 1, `"1"`: 1, "2": 0, "0": 0, "": 0, "11": 0} {
		if levels := Parse([]byte("ROUTERDIRHASH=" + value)).RouterLevels(); levels != want {
			t.Errorf("ROUTERDIRHASH=%s is %d", value, levels)
		}
	}
	if levels := (*File)(nil).RouterLevels(); levels != 0 {
		t.Errorf("%d without a file", levels)
	}
}

func TestRouterMaxSize(t *testing.T) {
	for text, want := range map[string]int64{
		"": 200 << 20, "ROUTERMAXSIZE=0": 0, "ROUTERMAXSIZE=100": 100, "ROUTERMAXSIZE=3k": 3 << 10, "ROUTERMAXSIZE=2G": 2 << 30,
		"ROUTERMAXSIZE=": -1, "ROUTERMAXSIZE=-1": -1, "ROUTERMAXSIZE=1kk": -1, "ROUTERMAXSIZE=M": -1,
	} {
		got, err := Parse([]byte(text)).RouterMaxSize()
		if want >= 0 && (err != nil || got != want) || want < 0 && err == nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestLogsCompletions(t *testing.T) {
	for value, want := range map[string]bool{"c": true, "abC": true, "ab": false, "": false} {
		if got := Parse([]byte("SYSLOGFLG=" + value)).LogsCompletions(); got != want {
			t.Errorf("SYSLOGFLG=%s is %v", value, got)
		}
	}
}

// ZMailer skipped the character after a reference, and so one that followed at
// once.
func TestExpand(t *testing.T) {
	z := Parse([]byte("A=a\nB=b\nEMPTY="))
	for text, want := range map[string]string{
		"${A}${B}": "ab", "x${A}y${B}z": "xaybz", "${EMPTY}": "", "$A": "$A", "${": "${", "${A": "${A",
		"${A}/${": "a/${", "": "", "${POSTOFFICE}": "/var/spool/postoffice",
	} {
		if got, unknown := Expand(text, z.Lookup); got != want || unknown != nil {
			t.Errorf("%s is %s, unknown %q; want %s", text, got, unknown, want)
		}
	}
	if got, unknown := Expand("${NO}${A}", z.Lookup); got != "${NO}a" || len(unknown) != 1 || unknown[0] != "NO" {
		t.Errorf("got %s, unknown %q", got, unknown)
	}
}

func TestManualHasEveryNameOfZmailerConf(t *testing.T) {
	data, err := os.ReadFile("../../man/zmailer.conf.5")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(data), `\-`, "-")
	for _, name := range []string{
		"MAILSHARE", "MAILBIN", "LOGDIR", "POSTOFFICE", "RENDEZVOUS", "SCHEDULERDIRHASH", "SCHEDULERNOTIFY",
		"SYSLOGFLG", "PATH", "ZCONFIG", "BINDADDR", "ROUTERDIRHASH", "ROUTERNOTIFY",
		"MAILSERVER", "MAILBOX", "ORGDOMAIN", "ROUTERMAXSIZE",
	} {
		_, entry, found := strings.Cut(page, "\n.TP\n.B "+name+"\n")
		if !found {
			t.Errorf("zmailer.conf(5) does not explain %s", name)
			continue
		}
		entry, _, _ = strings.Cut(entry, "\n.TP")
		if value := defaults[name]; value != "" && !strings.Contains(entry, value) {
			t.Errorf("the entry of %s does not have its default, %s", name, value)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("A=b\nC=\"d e\"\n# x\r\nF=${A}${POSTOFFICE}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		z := Parse(data)
		size := 0
		for name, value := range z.Known() {
			if again, _ := z.Lookup(name); again != value {
				t.Fatalf("%q is %q, then %q", name, value, again)
			}
			size += len(name) + len(value)
		}
		if size > 2*len(data)+500 {
			t.Fatalf("%d bytes of %d", size, len(data))
		}
	})
}

func TestDoubts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zmailer.conf")
	text := "POSTOFICE=/a\n MAILBIN=/b\nLOGDIR = /c\nexport HOSTNAME=h\nsyslogflags=T\nMAILVAR=/v\nLIBDIR=/l\n# ORGDOMAIN =x\nMAILSHARE=/s\nMAILSHAR=/t\nPATH=/bin\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var none *File
	doubts := strings.ReplaceAll(strings.Join(append(f.Doubts(), none.Doubts()...), "\n"), path, "f")
	const column = `: the name is to begin in the first column, with "=" right after it`
	if want := `f:1: no program uses "POSTOFICE"; perhaps POSTOFFICE is meant
f:2: the line does not set MAILBIN` + column + `
f:3: the line does not set LOGDIR` + column + `
f:4: the line does not set HOSTNAME` + column + `
f:5: no program uses "syslogflags"; perhaps SYSLOGFLG is meant`; doubts != want {
		t.Errorf("%s\nwant\n%s", doubts, want)
	}
}

// The names of zmailer.conf(5) are those of which doubts are told.
func TestNamesAreThoseOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../man/zmailer.conf.5")
	if err != nil {
		t.Fatal(err)
	}
	_, names, _ := strings.Cut(string(text), ".SH NAMES")
	names, _, _ = strings.Cut(names, ".SH ")
	told := map[string]bool{}
	for _, entry := range strings.Split(names, "\n.TP\n.B ")[1:] {
		name, _, _ := strings.Cut(entry, "\n")
		told[name] = true
		if nearest(name) != name {
			t.Errorf("%s of the manual is not known", name)
		}
	}
	for _, name := range append(slices.Collect(maps.Keys(defaults)), others...) {
		if !told[name] {
			t.Errorf("%s is not in the manual", name)
		}
	}
}
