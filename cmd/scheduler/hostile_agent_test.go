package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The agent hostile of TestHostileAgents: "hostile TRICK RUNS DIR". Its first RUNS
// processes play the trick. If the trick does not end the process, it then delivers as
// an agent should, as all later processes do (marking=scheduler, hostileSessions
// sessions). The agent records in DIR every start, its descriptors, and every delivery.

// hostileSessions is how many job lines the agent wants at once.
const hostileSessions = 3

// hostileAgent is one process.
type hostileAgent struct {
	dir, trick string
	in         *bufio.Reader
	open       []string // job lines not answered yet
	started    bool     // it has said #hungry
}

// playHostile is main of the agent.
func playHostile() {
	a := &hostileAgent{trick: os.Args[1], dir: os.Args[3], in: bufio.NewReader(os.Stdin)}
	if a.trick == "grandchild" {
		a.grandchild()
		return
	}
	most, err := strconv.Atoi(os.Args[2])
	if err != nil {
		os.Exit(2)
	}
	a.note("descriptors", descriptors())
	if a.note(a.trick+".starts", fmt.Sprintln(os.Getpid())) <= most {
		tricks[a.trick](a)
	}
	a.deliver()
}

// note appends text to a file, and returns how many lines it has then.
func (a *hostileAgent) note(name, text string) int {
	name = filepath.Join(a.dir, name)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		os.Exit(2)
	}
	defer f.Close()
	f.WriteString(text)
	all, err := os.ReadFile(name)
	if err != nil {
		os.Exit(2)
	}
	return bytes.Count(all, []byte("\n"))
}

// descriptors lists, in one line, what this process has open besides the standard
// streams and what the Go runtime opened itself.
func descriptors() string {
	var found []string
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err.Error() + "\n"
	}
	for _, e := range entries {
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		ours := strings.HasPrefix(link, "anon_inode:") || strings.HasPrefix(link, "/sys/fs/cgroup/")
		if number, _ := strconv.Atoi(e.Name()); err != nil || ours || number < 3 {
			continue // closed again, the runtime's, or a standard stream
		}
		if !strings.HasSuffix(link, "/fd") {
			found = append(found, link)
		}
	}
	return strings.Join(found, " ") + "\n"
}

func (a *hostileAgent) say(text string) { os.Stdout.WriteString(text) }

// hungry asks for the first job lines.
func (a *hostileAgent) hungry() {
	a.started = true
	a.say(strings.Repeat("#hungry\n", hostileSessions))
}

// jobs waits until the agent has n job lines.
func (a *hostileAgent) jobs(n int) {
	if !a.started {
		a.hungry()
	}
	for len(a.open) < n {
		line, err := a.in.ReadString('\n')
		switch {
		case err != nil || line == "\n":
			os.Exit(0)
		case line == "#idle\n":
			a.say("#hungry\n")
		default:
			a.open = append(a.open, line)
		}
	}
}

// deliver delivers what is open and what comes, until the scheduler says goodbye.
func (a *hostileAgent) deliver() {
	for {
		a.jobs(1)
		a.say(a.reports("ok3") + "#hungry\n")
	}
}

// reports records the oldest job line as delivered, and returns the reports about it.
func (a *hostileAgent) reports(status string) (text string) {
	path, host, _ := strings.Cut(strings.TrimSuffix(a.open[0], "\n"), "\t")
	a.open = a.open[1:]
	for _, offset := range recipientsOf(path, host) {
		a.note("deliveries", fmt.Sprintf("%s/%d\n", path, offset))
		text += fmt.Sprintf("%s/%d\t\t%s 250 played\n", filepath.Base(path), offset, status)
	}
	return text
}

// recipientsOf returns the offsets of a control file's open recipients at a host.
func recipientsOf(path, host string) (offsets []int) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		os.Exit(3)
	}
	at := 0
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("r ")) && slices.Contains(strings.Fields(string(line)), host) {
			offsets = append(offsets, at)
		}
		at += len(line)
	}
	return offsets
}

// forever waits for a signal that ends the process.
func forever() {
	r, _, err := os.Pipe()
	if err == nil {
		r.Read(make([]byte, 1))
	}
}

// tricks are what a hostile process does with its first job lines.
var tricks = map[string]func(*hostileAgent){
	"mute": func(a *hostileAgent) { a.jobs(3); forever() },
	"deaf": func(a *hostileAgent) {
		signal.Ignore(syscall.SIGTERM)
		a.jobs(3)
		forever()
	},
	"stopped": func(a *hostileAgent) {
		a.jobs(3)
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		forever() // until that has reached this thread
	},
	"dying": func(a *hostileAgent) {
		a.jobs(3)
		a.say(a.reports("ok3"))
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		forever()
	},
	"hanging": func(a *hostileAgent) { // the process stays, without its socket
		a.jobs(3)
		os.Stdin.Close()
		os.Stdout.Close()
		forever()
	},
	"slow": func(a *hostileAgent) { // a byte at a time
		a.jobs(3)
		for _, c := range []byte(a.reports("ok3") + "#hungry\n") {
			os.Stdout.Write([]byte{c})
		}
	},
	"garbling": func(a *hostileAgent) {
		a.say("\xff\xfe\x1b[2J\r\n/\n//\t\t\t\n-1/-1\t\tok\n" + strings.Repeat("\x80\t\n", 100))
		a.jobs(3)
		text := a.reports("ok3")
		for i := range len(text) - 1 { // every proper prefix of it
			a.say(text[:i] + "\n")
		}
		a.say(text + "#hungry\n")
	},
	"nul": func(a *hostileAgent) {
		a.jobs(3)
		id, _, _ := strings.Cut(a.open[1], "\t")
		a.say("\x00\n" + id + "\x00/1\t\tok3\x00\n" + strings.Repeat("\x00", 10_000) + "\n")
		a.say(strings.Replace(a.reports("ok3"), "played", "pla\x00yed", 1) + "#hungry\n")
	},
	"endless": func(a *hostileAgent) {
		a.jobs(3)
		for range 3000 {
			a.say(strings.Repeat("x", 100_000))
		}
		a.say("\n" + a.reports("ok3") + "#hungry\n")
	},
	"stranger": func(a *hostileAgent) { // everybody's mail but its own
		a.jobs(3)
		files, _ := os.ReadDir(".")
		for _, file := range files {
			own := slices.ContainsFunc(a.open, func(job string) bool { return strings.HasPrefix(job, file.Name()+"\t") })
			if own || file.IsDir() {
				continue
			}
			for _, offset := range recipientsOf(file.Name(), "h.example") {
				a.say(fmt.Sprintf("%s/%d\t\tok3 mine\n%s/%d\t\terror2 mine\n", file.Name(), offset, file.Name(), offset))
			}
		}
	},
	"offsets": func(a *hostileAgent) {
		a.jobs(3)
		id, _, _ := strings.Cut(a.open[0], "\t")
		for _, offset := range []string{"0", "1", "-1", "99999999", "9223372036854775807", "18446744073709551616", " 7", "7x"} {
			a.say(id + "/" + offset + "\t\tok3\n" + id + "/" + offset + "\t\terror2\n")
		}
		a.say("18446744073709551615/1\t\tok3\n")
	},
	"hungry": func(a *hostileAgent) { // one answer too many
		a.jobs(3)
		a.say(a.reports("ok3") + strings.Repeat("#hungry\n", 3))
		a.open = nil
	},
	"late":    func(a *hostileAgent) { a.jobs(3); a.leave() },
	"clung":   func(a *hostileAgent) { a.jobs(3); a.leave() },
	"witness": func(a *hostileAgent) { a.witness() },
	"absent": func(*hostileAgent) {
		os.Exit(1)
	},
	"quick":    func(a *hostileAgent) { a.jobs(1); os.Exit(0) },
	"remarks":  func(a *hostileAgent) { a.flood(os.Stdout, "# remark\n") },
	"junk":     func(a *hostileAgent) { a.flood(os.Stdout, "what is this\n") },
	"stderr":   func(a *hostileAgent) { a.flood(os.Stderr, strings.Repeat("e", 200)+"\n") },
	"resyncs":  func(a *hostileAgent) { a.flood(os.Stdout, "#resync 999999\n") },
	"hungries": func(a *hostileAgent) { a.flood(os.Stdout, "#hungry\n") },
}

// flood writes a line until the process is ended.
func (a *hostileAgent) flood(to *os.File, line string) {
	a.jobs(3)
	for {
		if _, err := to.WriteString(strings.Repeat(line, 100)); err != nil {
			forever()
		}
	}
}

// leave exits and leaves behind a process that has the socket. With the trick late, that
// process then reports the job lines; with clung, it waits until the scheduler closes
// the socket.
func (a *hostileAgent) leave() {
	heir := exec.Command("/proc/self/exe")
	heir.Args = []string{"hostile", "grandchild", a.trick, a.dir}
	heir.Args = append(heir.Args, a.open...)
	heir.Env = append(os.Environ(), fmt.Sprint("PARENT=", os.Getpid()))
	heir.Stdin, heir.Stdout = os.Stdin, os.Stdout
	if err := heir.Start(); err != nil {
		os.Exit(4)
	}
	os.Exit(0)
}

// grandchild is main of the process that leave leaves behind.
func (a *hostileAgent) grandchild() {
	a.open = os.Args[4:]
	for strconv.Itoa(os.Getppid()) == os.Getenv("PARENT") {
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 1000})
	}
	if os.Args[2] == "clung" {
		a.in.ReadString(0) // until the scheduler closes its end
		a.say("1/1\t\tok3 from the grave\n")
		return
	}
	for len(a.open) > 0 {
		a.say(a.reports("ok3"))
	}
}
