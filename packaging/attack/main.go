// Command attack attacks the built programs as users of the machine who have no
// rights: it runs the scheduler as root in a folder of its own and attacks it as two
// users that it creates. It prints a line for each attack and exits with 1 if one of
// them succeeds. It needs root; without root it says so and exits with 0. At the end,
// even after an error or a signal, it removes the users, their processes and the
// folder.
//
//	make attack
//	bin/attack eight messages    only those whose name has these words
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// timeLimit bounds the whole run.
const timeLimit = 10 * time.Minute

func main() {
	if role := os.Getenv("ATTACK_ROLE"); role != "" {
		play(role, os.Args[1:])
		return
	}
	os.Exit(run())
}

func run() int {
	if os.Geteuid() != 0 {
		fmt.Println("attack: skipped, because it needs root")
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := newSite(ctx)
	defer s.remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	failed := 0
	for _, a := range attacks {
		if !strings.Contains(a.name, strings.Join(os.Args[1:], " ")) {
			continue
		}
		err := a.try(s)
		if err == nil {
			err = s.victimIsUnchanged()
		}
		if err != nil {
			failed++
			fmt.Printf("FAIL  %s: %v\n", a.name, err)
		} else {
			fmt.Printf("held  %s\n", a.name)
		}
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "attack:", ctx.Err())
			return 1
		}
	}
	if err := s.stop(); err != nil {
		failed++
		fmt.Println("FAIL  the scheduler stops:", err)
	}
	if failed > 0 {
		fmt.Printf("%d of %d attacks succeeded\n", failed, len(attacks))
		return 1
	}
	return 0
}

// account is a user that this run has made.
type account struct {
	name string
	uid  uint32
}

func newAccount(name string) (account, error) {
	out, err := exec.Command("useradd", "--no-create-home", "--shell", "/bin/sh", "--user-group", name).CombinedOutput()
	if err != nil {
		return account{}, fmt.Errorf("useradd %s: %w: %s", name, err, out)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{name: name}, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	return account{name, uint32(uid)}, err
}

// remove ends the user's processes and removes the user.
func (a account) remove() {
	if a.name == "" {
		return
	}
	for range 10 {
		pids := a.processes()
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(pids) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if out, err := exec.Command("userdel", a.name).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "attack: userdel %s: %v: %s\n", a.name, err, out)
	}
}

// processes lists the processes of the user.
func (a account) processes() (pids []int) {
	if a.uid == 0 {
		return nil
	}
	list, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range list {
		var st syscall.Stat_t
		if syscall.Stat(dir, &st) == nil && st.Uid == a.uid {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// command is a command that the user runs.
func (a account) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.uid}, Setsid: true}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	return cmd
}

// sh runs a line of shell as the user and returns what it prints.
func (s *site) sh(a account, line string, args ...any) (string, error) {
	cmd := a.command(s.ctx, "/bin/sh", "-c", fmt.Sprintf(line, args...))
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// missing is what the shell and programs say about a file that does not exist.
var missing = regexp.MustCompile(`(?i)not found|no such file`)

// mayNot runs lines of shell as the user, each of which must fail, but not because something that
// it needs is missing.
func (s *site) mayNot(a account, lines ...string) error {
	var errs []error
	for _, line := range lines {
		out, err := s.sh(a, "%s", line)
		if err == nil {
			errs = append(errs, fmt.Errorf("%q succeeded: %q", line, out))
		} else if missing.MatchString(out) {
			errs = append(errs, fmt.Errorf("%q was no attack: %q", line, out))
		}
	}
	return errors.Join(errs...)
}
