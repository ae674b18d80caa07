package server

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"zsched/mailq"
)

// The auth file: its lines, and who may change it.

func TestLinesOfTheAuthFile(t *testing.T) {
	tests := []struct {
		name, file, user string
		want             string // rights as the letters of letters; "-" for none
	}{
		{"plain", "a:p:SNMP QQ TT ETRN:\n", "a", "SQTE"},
		{"all", "a:p:ALL:\n", "a", "SQTEK"},
		{"no LF at the end of the file", "a:p:KILL:[127.0.0.0]/8", "a", "K"},
		{"no LF behind an open bracket", "a:p:KILL:[127.0.0.1", "a", "-"},
		{"no LF behind a width", "a:p:KILL:[127.0.0.1]/", "a", "-"},
		{"TAB is no blank", "a:p:SNMP\tQQ:\n", "a", "-"},
		{"unknown words", "a:p:SMTPIP QQ quux:\n", "a", "Q"},
		{"lower case", "a:p:qq:\n", "a", "-"},
		{"case of users", "A:p:QQ:\n", "a", "-"},
		{"no trimming", " a:p:QQ:\n", "a", "-"},
		{"first that fits", "a:p:QQ:[10.0.0.0]/8\na:p:TT:\na:p:ALL:\n", "a", "T"},
		{"lines for others", "a:p:SMTPIP:\na:p:TT:\n", "a", "T"},
		{"none is an answer", "a:p:NONE:\na:p:ALL:\n", "a", "-"},
		{"none and more", "a:p:NONE QQ:\n", "a", "Q"},
		{"comments", "#a:p:ALL:\n*a:p:ALL:\n\na:p:QQ:\n", "a", "Q"},
		{"three fields", "a:p:ALL\n", "a", "-"},
		{"colons in addresses", "a:p:ALL:[ipv6:::1]/128 [127.0.0.1]\n", "a", "SQTEK"},
		{"CRLF", "a:p:QQ:[127.0.0.1]/32\r\n", "a", "Q"},
		{"CRLF without addresses", "a:p:QQ:\r\n", "a", "-"},
		{"too long", "a:p:ALL:" + strings.Repeat(" ", 2000) + "\na:p:QQ:\n", "a", "Q"},
		{"empty file", "", "a", "-"},
	}
	for _, tt := range tests {
		list, _ := parseAccounts(tt.file)
		got := "-"
		if a, ok := list.find(tt.user, loopback); ok {
			got = letters(a.rights)
		}
		if got != tt.want {
			t.Errorf("%s: rights %s, want %s", tt.name, got, tt.want)
		}
		if list.mayConnect(loopback) != (got != "-") && tt.name != "case of users" && tt.name != "no trimming" && tt.name != "none is an answer" {
			t.Errorf("%s: may connect %v", tt.name, list.mayConnect(loopback))
		}
	}
}

func letters(r rights) string {
	s := ""
	for i, right := range []rights{rightSNMP, rightQQ, rightTT, rightETRN, rightKILL} {
		if r.has(right) {
			s += "SQTEK"[i : i+1]
		}
	}
	return s
}

// ETRN starts deliveries: the internet may not, by the files that people copy.
func TestExamplesOfTheAuthFileGiveStrangersNoETRN(t *testing.T) {
	strangers := []Peer{{Addr: netip.MustParseAddr("198.51.100.7")}, {Addr: netip.MustParseAddr("2001:db8::1")}}
	for _, name := range []string{"man/scheduler.8", "packaging/install"} {
		text, err := os.ReadFile("../../" + name)
		must(t, err)
		lines := regexp.MustCompile(`(?m)^\s*(\w+:[^:\n]+:[A-Z ]+:.*\[.*)$`).FindAllStringSubmatch(string(text), -1)
		if len(lines) < 2 {
			t.Errorf("%s has %d lines of an auth file", name, len(lines))
		}
		var file strings.Builder
		for _, line := range lines {
			file.WriteString(line[1] + "\n")
		}
		list, problems := parseAccounts(file.String())
		if a, ok := list.find("nobody", loopback); len(problems) > 0 || !ok || !a.rights.has(rightETRN) {
			t.Errorf("%s: nobody may not send ETRN from here, or %v, in\n%s", name, problems, &file)
		}
		for i := range list {
			for _, peer := range strangers {
				if list[i].accepts(peer) && list[i].rights.has(rightETRN) {
					t.Errorf("%s: %s may send ETRN from %v", name, list[i].user, peer)
				}
			}
		}
	}
}

// TestAuthFileOfOthersIsRefused: the file holds passwords and grants rights.
func TestAuthFileOfOthersIsRefused(t *testing.T) {
	path := authFile(t, users)
	uid := os.Getuid()
	if _, _, err := readAccounts(path, uid); err != nil {
		t.Errorf("mode 0600: %v", err)
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o660, 0o602, 0o700, 0o777} {
		must(t, os.Chmod(path, mode))
		list, _, err := readAccounts(path, uid)
		if len(list) > 0 || err == nil || !strings.Contains(err.Error(), "must be 0600") {
			t.Errorf("mode %04o: %d lines, %v", mode, len(list), err)
		}
	}
	must(t, os.Chmod(path, 0o400))
	if _, _, err := readAccounts(path, uid); err != nil {
		t.Errorf("mode 0400: %v", err)
	}
	if uid == 0 {
		must(t, os.Chown(path, 4712, 0))
		if _, _, err := readAccounts(path, 4711); err == nil || !strings.Contains(err.Error(), "belongs to uid 4712") {
			t.Errorf("of another user: %v", err)
		}
		if _, _, err := readAccounts(path, 4712); err != nil {
			t.Errorf("of our own user: %v", err)
		}
	} else if _, _, err := readAccounts(path, uid+1); err == nil {
		t.Error("of another user: read")
	}
	dir := t.TempDir()
	if _, _, err := readAccounts(dir, uid); err == nil {
		t.Error("a directory was read")
	}
	fifo := filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	if _, _, err := readAccounts(fifo, uid); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a named pipe: %v", err)
	}
	large := filepath.Join(dir, "large")
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, maxAuthFile+1))
	if _, _, err := readAccounts(large, uid); err == nil {
		t.Error("a file without bound was read")
	}
	if _, _, err := readAccounts(filepath.Join(dir, "none"), uid); err == nil {
		t.Error("no file was read")
	}
}

func TestCheckAuthFile(t *testing.T) {
	path := authFile(t, "a:p:ALL:\nb:p:QQ:10.0.0.1\nc:p:QQ\nd:p:QQ:![localhost] [0.0.0.0]/0\n")
	problems := CheckAuthFile(path, os.Getuid())
	if len(problems) != 3 {
		t.Fatalf("%d problems: %v", len(problems), problems)
	}
	for i, n := range []string{":2: ", ":3: ", ":4: "} {
		if !strings.HasPrefix(problems[i].Error(), "auth file "+path+n) {
			t.Errorf("%v", problems[i])
		}
	}
}

func TestAuthFileIsReadEveryTime(t *testing.T) {
	path := authFile(t, "a:p:QQ:\n")
	s := New(&fakeQueue{}, Settings{Version: 2, AuthFile: path, UID: daemonUID()})
	k := dial(t, s, loopback)
	must(t, os.WriteFile(path, []byte("b:q:QQ:\n"), 0o600))
	if r := k.reply("AUTH a " + mailq.Digest(k.challenge, "p")); r != "-BAD USER OR PASSWORD" {
		t.Error(r)
	}
	k.login("b", "q")
	must(t, os.Chmod(path, 0o644))
	var note Note
	s.Configure(Settings{Version: 2, AuthFile: path, UID: daemonUID(), Note: func(n Note) {
		if n.Kind == NoteAuth {
			note = n
		}
	}})
	refused(t, s, loopback)
	if note.Err == nil || !strings.Contains(note.Err.Error(), "0600") {
		t.Errorf("note %+v", note)
	}
}
