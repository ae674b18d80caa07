package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// unitFile is the unit that make install installs.
const unitFile = "../../packaging/systemd/scheduler.service"

// capabilities are those that the unit may name.
var capabilities = map[string]uint{
	"CAP_CHOWN": unix.CAP_CHOWN, "CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH,
	"CAP_FOWNER": unix.CAP_FOWNER, "CAP_FSETID": unix.CAP_FSETID, "CAP_KILL": unix.CAP_KILL, "CAP_LEASE": unix.CAP_LEASE,
	"CAP_SETGID": unix.CAP_SETGID, "CAP_SETUID": unix.CAP_SETUID, "CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"CAP_SYS_NICE": unix.CAP_SYS_NICE, "CAP_SYS_RESOURCE": unix.CAP_SYS_RESOURCE,
}

// unitCapabilities returns the bounding set of the unit.
func unitCapabilities(t *testing.T) (set uint64) {
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindSubmatch(unit)
	if line == nil {
		t.Fatal("the unit has no CapabilityBoundingSet")
	}
	for _, name := range strings.Fields(string(line[1])) {
		number, ok := capabilities[name]
		if !ok {
			t.Fatalf("the unit has %s, which the test does not know", name)
		}
		set |= 1 << number
	}
	return set
}

// confine is the command "confine SET PROGRAM ARG...": it runs the program as systemd
// runs the unit, with a bounding set of capabilities, and with groups that it should
// not keep.
func confine() {
	set, err := strconv.ParseUint(os.Args[1], 16, 64)
	if err != nil {
		os.Exit(2)
	}
	runtime.LockOSThread() // the bounding set belongs to a thread
	for number := range uint(64) {
		if set&(1<<number) == 0 {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0) // EINVAL: the kernel does not have it
		}
	}
	if err := syscall.Setgroups([]int{0, 4, 27, 100}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[2], os.Args[2:], os.Environ()))
	os.Exit(2)
}

// TestPrivilege: with the capabilities of the unit and no others, a root scheduler
// takes a user's file over, starts agents as another user and with another priority,
// and ends one that does not leave. The agents have that user, that group, the group of
// the files and no others, no capability, and a clean environment.
func TestPrivilege(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be other users")
	}
	s := newHostileSite(t, "")
	set := unitCapabilities(t)
	s.openToOthers(set)
	const nobody, group = 65534, 4243
	clause := "%s/* user=%d group=%[6]d priority=-3 marking=scheduler sessions=%[3]d maxring=%[3]d maxthr=%[3]d interval=1s retries=1 jitter=0 agent-timeout=%[4]s\n" +
		"\tcommand=\"FOO=bar hostile %[1]s 1 %[5]s/notes\"\n"
	s.office.write(t, s.po, fmt.Sprintf("PARAMevent-log=%s/events\n", s.po)+
		fmt.Sprintf(clause, "witness", nobody, hostileSessions, "1h", s.po, group)+fmt.Sprintf(clause, "mute", nobody, hostileSessions, "1s", s.po, group))
	s.owner = nobody
	s.submit("witness", 3)
	s.submit("mute", 3)

	sched := s.office.start(t, s.po)
	s.awaitEvents("all mail to be delivered", 6, func(e event) bool { return e.Class == 2 })
	own := statusOf(t, sched.cmd.Process.Pid)
	sched.stop(t)
	before := statusOf(t, os.Getpid())
	bound, err := strconv.ParseUint(before["CapBnd"], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%016x", set&bound); own["CapEff"] != want || own["CapBnd"] != want || own["Groups"] != "" {
		t.Errorf("the scheduler has the capabilities %s of %s, and the groups %q; want %s and none", own["CapEff"], own["CapBnd"], own["Groups"], want)
	}
	text, err := os.ReadFile(filepath.Join(s.po, "notes", "witness"))
	if err != nil {
		t.Fatal(err)
	}
	status := parseStatus(string(text))
	for name, want := range map[string]string{
		"Uid": "65534 65534 65534 65534", "Gid": "4243 4243 4243 4243", "Groups": "4243",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapAmb": "0000000000000000",
		"priority": "-3", "umask": "0022",
	} {
		if status[name] != want {
			t.Errorf("an agent has %s %q, want %q", name, status[name], want)
		}
	}
	for word := range strings.FieldsSeq(status["environment"]) {
		// The shell that limits an agent's descriptors sets PWD.
		name, _, _ := strings.Cut(word, "=")
		if !slices.Contains([]string{"FOO", "PATH", "PWD", "TA_MARKING", "TZ", "ZCONFIG"}, name) {
			t.Errorf("an agent has %s in its environment", word)
		}
	}
}

// openToOthers makes a copy of the programs that other users can run, and has the
// scheduler started with these capabilities only.
func (s *hostileSite) openToOthers(set uint64) {
	check := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for dir := s.po; ; dir = filepath.Dir(dir) {
		check(os.Chmod(dir, 0o755))
		if dir == filepath.Dir(s.office.dir) {
			break
		}
	}
	check(os.Mkdir(filepath.Join(s.po, "notes"), 0o777))
	check(os.Chmod(filepath.Join(s.po, "notes"), 0o777))
	agent := filepath.Join(s.office.dir, "ta", "hostile")
	from, err := os.Open(agent)
	check(err)
	defer from.Close()
	check(os.Remove(agent))
	to, err := os.OpenFile(agent, os.O_CREATE|os.O_WRONLY, 0o755)
	check(err)
	_, err = io.Copy(to, from)
	check(err)
	check(to.Close())
	dir := filepath.Join(s.office.dir, "confined")
	check(os.Mkdir(dir, 0o755))
	self, err := filepath.Abs(os.Args[0])
	check(err)
	check(os.Symlink(self, filepath.Join(dir, "confine")))
	script := fmt.Sprintf("#!/bin/sh\nexec %s/confine %x %s \"$@\"\n", dir, set, s.office.scheduler)
	s.office.scheduler = filepath.Join(dir, "start")
	check(os.WriteFile(s.office.scheduler, []byte(script), 0o755))
}

// witness records the user, groups, capabilities and environment of the process.
func (a *hostileAgent) witness() {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		os.Exit(2)
	}
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		os.Exit(2)
	}
	a.note("witness", fmt.Sprintf("%spriority:\t%d\numask:\t%04o\nenvironment:\t%s\n", status, 20-raw, syscall.Umask(0o022), strings.Join(os.Environ(), " ")))
}

func statusOf(t *testing.T, pid int) map[string]string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return parseStatus(string(text))
}

// parseStatus reads a file like /proc/self/status (proc(5)).
func parseStatus(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.Join(strings.Fields(value), " ")
	}
	return fields
}

// maxExposure is the highest exposure that systemd-analyze security may find, of
// 10. The rest is what the scheduler needs to run agents as other users.
const maxExposure = 6.0

func TestUnitIsHardened(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	unit := regexp.MustCompile(`@\w+@`).ReplaceAllString(string(text), "/opt/mail")
	file := filepath.Join(t.TempDir(), "scheduler.service")
	writeFile(t, file, unit)
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", file).CombinedOutput()
	if err != nil {
		t.Skipf("this systemd-analyze cannot judge a file: %v: %s", err, out)
	}
	found := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("systemd-analyze says %s", out)
	}
	exposure, err := strconv.ParseFloat(string(found[1]), 64)
	if t.Logf("the exposure is %.1f", exposure); err != nil || exposure > maxExposure {
		t.Errorf("the exposure is %s, %v; at most %.1f is allowed\n%s", found[1], err, maxExposure, out)
	}
}
