package agent

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// runHelper is the test binary as an agent.
func runHelper(part string) int {
	in := bufio.NewReader(os.Stdin)
	switch part {
	case "polite":
		say("#hungry\n")
		for {
			line, err := in.ReadString('\n')
			if err != nil || line == "\n" {
				return 0
			}
			if line != "#idle\n" {
				_, host, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				say("15582/109\t\tok " + host + "\n")
			}
			say("#hungry\n")
		}
	case "mute":
		in.ReadString(0)
	case "garbling":
		say("\n" + "a\x00b\n" + "1/2\t\tok\x00 a\tb\x00cd\n")
		say(strings.Repeat("x", ta.MaxLine+5000) + "\n#hungry\nno end at all")
	case "dying":
		say("#hungry\n")
		in.ReadByte()
		flood()
		unix.Kill(os.Getpid(), unix.SIGKILL)
	case "flooding":
		flood()
	case "pausing":
		n, _ := strconv.Atoi(os.Getenv("TAIL"))
		say("#" + strings.Repeat("x", n-1))
		fmt.Fprintln(os.Stderr, "paused")
		in.ReadString('\n')
		say("y\n")
	case "deaf":
		say("#hungry\n")
		wait()
	case "late":
		return late(in)
	case "leaking":
		return leak()
	case "sitting":
		os.Open(os.Getenv("HOLD")) // until somebody opens it for writing
	case "hanging":
		say("#hungry\n")
		os.Stdin.Close()
		os.Stdout.Close()
		wait()
	case "complaining":
		fmt.Fprint(os.Stderr, "# hash\n\n", strings.Repeat("e", maxStderr+9000), "\na\tb\nno end of line")
	case "telling":
		in.ReadString('\n')
		tell()
	case "ordinary":
		fmt.Fprintln(os.Stderr, startAsRoot())
	default:
		return end(part, in)
	}
	return 0
}

func say(s string) { os.Stdout.WriteString(s) }

func flood() {
	w := bufio.NewWriter(os.Stdout)
	for i := range 4096 {
		fmt.Fprintf(w, "15582/%d\t\tok3 delivered\n", i)
	}
	w.Flush()
}

// wait until a signal ends it all.
func wait() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	r.Read(make([]byte, 1))
	w.Close()
}

// late reads nothing before it is told to by a signal, then gives every line
// back as a report.
func late(in *bufio.Reader) int {
	now := make(chan os.Signal, 1)
	signal.Notify(now, unix.SIGUSR1)
	say("#hungry\n")
	<-now
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		job, err := ta.ParseJobLine([]byte(strings.TrimSuffix(line, "\n")))
		if err != nil {
			return 1
		}
		fmt.Fprintf(w, "%s/1\t\tok\n", job.Path)
	}
}

// leak leaves a grandchild with the socket and goes.
func leak() int {
	sit := exec.Command("/proc/self/exe")
	sit.Env = []string{"HELPER=sitting", "HOLD=" + os.Getenv("HOLD"), quick}
	sit.Stdin, sit.Stdout, sit.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := sit.Start(); err != nil {
		return 1
	}
	say("7/1\t\tok\n")
	return 5
}

// end is "exit N", "signal N" and "eof exit N".
func end(part string, in *bufio.Reader) int {
	part, early := strings.CutPrefix(part, "eof ")
	if early {
		os.Stdout.Close()
	}
	in.ReadString(0)
	os.Stdin.Close()
	word, number, _ := strings.Cut(part, " ")
	n, _ := strconv.Atoi(number)
	if word == "signal" {
		unix.Kill(os.Getpid(), unix.Signal(n))
		wait()
	}
	return n
}

// tell writes what it finds itself to be.
func tell() {
	w := os.Stderr
	fmt.Fprintf(w, "args %q\n", os.Args)
	fmt.Fprintf(w, "env %q\n", os.Environ())
	if cwd, err := os.Readlink("/proc/self/cwd"); err == nil {
		fmt.Fprintf(w, "cwd %s\n", cwd)
	}
	p, _ := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	fmt.Fprintf(w, "nice %d\n", 20-p)
	for fd := range 100 {
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		kind, _, _ := strings.Cut(link, ":")
		ours := kind == "anon_inode" || strings.HasPrefix(kind, "/sys/fs/cgroup/") // the runtime's
		if err == nil && !ours {
			fmt.Fprintf(w, "fd %d %s\n", fd, kind)
		}
	}
	zero, _ := os.Readlink("/proc/self/fd/0")
	one, _ := os.Readlink("/proc/self/fd/1")
	fmt.Fprintf(w, "same %v\n", zero == one)
}

func startAsRoot() string {
	_, err := Start(Spec{Path: "/bin/sh", Args: []string{"sh"}, UID: 0, GID: -1}, func([]Event) {})
	return fmt.Sprint(err)
}
