package receiver

// What a start does with messages that an earlier version has staged.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stagedBefore is a postoffice in which an earlier version has recorded and staged a
// message with the lines of its sender and recipient, in a control file of that prefix.
func stagedBefore(t *testing.T, prefix, lines string) (office, name string) {
	t.Helper()
	office = t.TempDir()
	for _, dir := range []string{"transport/" + stagedDir, "queue/" + stagedDir} {
		check(t, os.MkdirAll(filepath.Join(office, dir), 0o755))
	}
	message := filepath.Join(office, "queue", stagedDir, messagePrefix+"tok")
	check(t, os.WriteFile(message, []byte(pushedBody), 0o660))
	check(t, os.Chtimes(message, time.Time{}, time.Now().Add(1000*time.Hour)))
	if os.Geteuid() == 0 {
		check(t, os.Chown(message, 12345, 12345))
	}
	info, err := os.Lstat(message)
	check(t, err)
	name = strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)
	check(t, os.WriteFile(filepath.Join(office, "transport", stagedDir, prefix+"tok"),
		[]byte("@ 0x00000007\nv ../profile.sh\ni "+name+"\no 12\nl <m@x>\nx <other@x>\nT host.example\n"+lines), 0o660))
	check(t, os.WriteFile(filepath.Join(office, "transport", stagedDir, originsName),
		fmt.Appendf(nil, "T %d tok n2/S1A 42\n", time.Now().Unix()), 0o600))
	return office, name
}

// TestStagedControlFileOfAnEarlierVersionIsWrittenAnew: that version took lines with an
// effect on this machine, and the peer's choice of privilege, owner and time.
func TestStagedControlFileOfAnEarlierVersionIsWrittenAnew(t *testing.T) {
	for _, c := range []struct{ prefix, dir, before, after string }{
		{
			queuedPrefix, "", "e err@x\ns local - a@x.example 0\nr           local - bob 0\nO n2/S1A/42 3\nm\nSubject: x\n\n",
			"e err@x\ns local - a@x.example 65534\nr           local - bob 65534\nO n2/S1A/42 3\nm\nSubject: x\n\n",
		},
		{
			queuedPrefix, "", "e err@x\ns local - a@x.example 0\nr-          prog - bob 0\nO n2/S1A/42 3\nm\nSubject: x\n\nd 93:144:-1::1047508710\tnotary\ttext\n",
			"e err@x\ns local - a@x.example 65534\nr-          prog - bob 65534\nO n2/S1A/42 3\nm\nSubject: x\n\nd %[2]d:%[3]d:-1::1047508710\tnotary\ttext\n",
		},
		{
			heldPrefix, "hold/", "e err@x\ns local - a@x.example 0\nr           local - bob 0\nO n2/S1A/42 3\nH root 1047508710 0 why\nm\nSubject: x\n\n",
			"e err@x\ns local - a@x.example 65534\nr           local - bob 65534\nO n2/S1A/42 3\nH root 1047508710 0 why\nm\nSubject: x\n\n",
		},
	} {
		office, name := stagedBefore(t, c.prefix, "")
		before := "@ 0x00000007\nv ../profile.sh\ni " + name + "\no 12\nl <m@x>\nx <other@x>\nT host.example\n" + c.before
		before = strings.Replace(before, "d 93:144", fmt.Sprintf("d %d:%d", strings.Index(before, "r-"), strings.Index(before, "Subject")), 1)
		check(t, os.WriteFile(filepath.Join(office, "transport", stagedDir, c.prefix+"tok"), []byte(before), 0o660))
		s, err := OpenStore(Options{Postoffice: office, Channels: []string{"local"}})
		check(t, err)
		if len(s.stuck) != 0 {
			t.Error(s.stuck)
		}
		text, err := os.ReadFile(filepath.Join(office, c.dir+"transport", name))
		check(t, err)
		front := "@ 0x00000007\ni " + name + "\no 12\nl <m@x>\n"
		want := front + c.after
		if strings.Contains(want, "%") {
			recipient, header := strings.Index(want, "r-"), strings.Index(want, "Subject")
			want = strings.NewReplacer("%[2]d", strconv.Itoa(recipient), "%[3]d", strconv.Itoa(header)).Replace(want)
		}
		if string(text) != want {
			t.Errorf("the control file is\n%s\nnot\n%s", text, want)
		}
		info, err := os.Lstat(filepath.Join(office, c.dir+"queue", name))
		check(t, err)
		if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() || info.Mode().Perm() != messageMode || info.ModTime().After(time.Now()) {
			t.Errorf("the message belongs to user %d, has mode %v and arrives at %v", uid, info.Mode(), info.ModTime())
		}
		s.Close()
	}
}

// TestStagedRecipientThatIsNotTakenStays: the node that pushed it may know that it is here.
func TestStagedRecipientThatIsNotTakenStays(t *testing.T) {
	office, name := stagedBefore(t, queuedPrefix, "s local - a@x.example 0\nr           local - \"|id\" 0\nO n2/S1A/42 3\nm\nSubject: x\n\n")
	s, err := OpenStore(Options{Postoffice: office, Channels: []string{"local"}})
	check(t, err)
	if _, err := os.Lstat(filepath.Join(office, "transport", name)); err == nil || s.stuck["tok"] == nil {
		t.Errorf("it is in the queue, stuck are %v", s.stuck)
	}
	logged := ""
	r := New(s)
	r.Log = func(_ string, err error) { logged += err.Error() }
	done, stop := context.WithCancel(t.Context())
	stop()
	r.Run(done)
	if !strings.Contains(logged, "programs, files and lists of users are not accepted") {
		t.Errorf("the log has %q", logged)
	}
	s.Close()
	if s, err = OpenStore(Options{Postoffice: office, Programs: true}); err != nil || len(s.stuck) != 0 {
		t.Fatalf("when programs are taken: %v, %v", err, s.stuck)
	}
	s.Close()
	if _, err := os.Lstat(filepath.Join(office, "transport", name)); err != nil {
		t.Error(err)
	}
}
