package main

// What the users' processes do that a shell cannot do fast enough.

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// roleTime bounds a process that works until it is killed.
const roleTime = time.Minute

// role is this program, run by a user in a role.
func (s *site) role(a account, role string, args ...string) *exec.Cmd {
	cmd := a.command(s.ctx, filepath.Join(s.dir, "bin/attack"), args...)
	cmd.Dir = s.dir
	cmd.Env = append(cmd.Env, "ATTACK_ROLE="+role)
	return cmd
}

// play plays a role.
func play(role string, args []string) {
	err := fmt.Errorf("unknown role %q", role)
	switch role {
	case "datagram":
		var c net.Conn
		if c, err = net.Dial("unixgram", args[0]); err == nil {
			_, err = c.Write([]byte("NEW 1"))
		}
	case "connect":
		n, _ := strconv.Atoi(args[1])
		var open []net.Conn
		for range n {
			c, e := net.DialTimeout("unix", args[0], time.Second)
			if e != nil {
				break
			}
			open = append(open, c)
		}
		fmt.Println(len(open), "connections")
		time.Sleep(roleTime)
		err = nil
	case "greet":
		var said string
		said, err = greet(args[0])
		fmt.Print(said)
	case "enter":
		err = enter()
	case "swap":
		err = swap(args[0], args[1])
	case "crowd":
		err = crowd(args[0])
	case "litter":
		err = litter(args[0])
	case "flood":
		err = submissions(args[0])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// swap tries to replace every file that appears in public/ and router/ with a link to a
// target.
func swap(postoffice, target string) error {
	for end := time.Now().Add(roleTime); time.Now().Before(end); {
		for _, dir := range []string{"public", "router"} {
			list, _ := os.ReadDir(filepath.Join(postoffice, dir))
			for _, e := range list {
				path := filepath.Join(postoffice, dir, e.Name())
				if os.Rename(path, path+".old") == nil || os.Remove(path) == nil {
					_ = os.Symlink(target, path)
				}
			}
		}
	}
	return nil
}

// crowded is what crowd says when its links are there.
const crowded = "crowded\n"

// crowd makes 20000 links in a directory, and then renames three of them to and fro.
func crowd(dir string) error {
	link := func(i int) string { return filepath.Join(dir, fmt.Sprintf("5%08d", i)) }
	for i := range 20000 {
		if err := os.Symlink("nowhere", link(i)); err != nil {
			return err
		}
	}
	for i := range 3 {
		go func() {
			for {
				_ = os.Rename(link(i), link(-i-1))
				_ = os.Rename(link(-i-1), link(i))
			}
		}()
	}
	fmt.Print(crowded)
	time.Sleep(roleTime)
	return nil
}

// badSubmissions is how many files litter makes.
const badSubmissions = 200_000

// litter fills a directory with files of two bytes.
func litter(dir string) error {
	for i := range badSubmissions {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("6%08d", i)), []byte("x\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// submissions writes submissions with a thousand hosts each for half a minute, as fast as the disk
// permits.
func submissions(dir string) error {
	const many = 1000
	for i, end := 0, time.Now().Add(roleTime/2); time.Now().Before(end); i++ {
		var text bytes.Buffer
		text.WriteString("from <>\n")
		for n := range many {
			fmt.Fprintf(&text, "to <x@s%d-%d.example>\n", i, n)
		}
		text.WriteString("env-end\nSubject: x\n\nbody\n")
		hidden := filepath.Join(dir, fmt.Sprintf(".7%08d", i))
		if err := os.WriteFile(hidden, text.Bytes(), 0o600); err != nil {
			return err
		}
		if err := os.Rename(hidden, filepath.Join(dir, fmt.Sprintf("7%08d", i))); err != nil {
			return err
		}
	}
	return nil
}

// enter tries to trace every delivery helper that appears and to take its
// descriptors, until it has seen a few come and go. The helpers are of this user.
func enter() error {
	const enough = 5
	runtime.LockOSThread() // a traced process belongs to the thread
	helpers, entered := map[string]bool{}, 0
	for end := time.Now().Add(roleTime); time.Now().Before(end); {
		present := false
		list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range list {
			command, _ := os.ReadFile(path)
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if !bytes.Contains(command, []byte("--deliver-one")) {
				continue
			}
			present = true
			helpers[path] = true
			// A helper is tried again until it is gone.
			if unix.PtraceSeize(pid) == nil || take(pid) {
				entered++
			}
		}
		if len(helpers) >= enough && !present {
			fmt.Printf("entered %d of %d", entered, len(helpers))
			return nil
		}
	}
	return fmt.Errorf("only %d helpers have come and gone", len(helpers))
}

// take takes a descriptor of a process.
func take(pid int) bool {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(handle)
	fd, err := unix.PidfdGetfd(handle, 0, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}
