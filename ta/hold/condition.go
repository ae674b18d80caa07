package hold

// Conditions: how each class is tested.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"zsched/internal/units"
)

// testTimeout is how long a script or a lookup may take.
const testTimeout = 5 * time.Minute

// test returns nil if a condition is met, or the reason why it is not yet.
// modifiedAt is the time of the message file.
func (a *Agent) test(condition string, modifiedAt time.Time) error {
	class, parameter, ok := strings.Cut(condition, ":")
	if !ok {
		return fmt.Errorf("%q is not a condition", condition)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	switch strings.ToUpper(class) {
	case "NS":
		domain, kind, _ := strings.Cut(parameter, "/")
		return a.LookUp(ctx, domain, strings.ToUpper(kind))
	case "TIMEOUT":
		seconds, err := strconv.ParseInt(parameter, 10, 64)
		if err != nil {
			return fmt.Errorf("TIMEOUT %q is not a time", parameter)
		}
		return a.until(time.Unix(seconds, 0))
	case "AGE":
		age, err := units.ParseInterval(strings.ToLower(parameter))
		if err != nil {
			return fmt.Errorf("AGE %q: %w", parameter, err)
		}
		return a.until(modifiedAt.Add(age))
	case "SCRIPT":
		name, argument, _ := strings.Cut(parameter, "/")
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("SCRIPT %q is not the name of a script", parameter)
		}
		return a.Script(ctx, name, argument)
	}
	return fmt.Errorf("unknown condition %q", class)
}

func (a *Agent) until(t time.Time) error {
	if a.Now().Before(t) {
		return fmt.Errorf("waiting until %s", t.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return nil
}

// lookUp looks up MX records or, for any other type, addresses.
func lookUp(ctx context.Context, domain, kind string) error {
	var err error
	if kind == "MX" {
		_, err = net.DefaultResolver.LookupMX(ctx, domain)
	} else {
		_, err = net.DefaultResolver.LookupIP(ctx, "ip", domain)
	}
	return temporary(err)
}

// temporary returns the error, or nil if it is an answer: that there is no such
// name, or no such record.
func temporary(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && !dns.Temporary() && !dns.Timeout() {
		return nil
	}
	return err
}

// runScript runs a script without the agent's socket. What it prints goes to the
// scheduler's log.
func runScript(ctx context.Context, path, argument string) error {
	cmd := exec.CommandContext(ctx, path)
	if argument != "" {
		cmd.Args = append(cmd.Args, argument)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("script %s: %w", filepath.Base(path), err)
	}
	return nil
}
