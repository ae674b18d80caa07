// Package hold is the agent of the channel hold: mail that waits until
// something comes true. The host word of a recipient is a condition,
//
//	CLASS:parameter
//
// and the user word the address to try then: the recipient is submitted again
// to the router. Classes, in any case:
//
//	NS:domain/TYPE         a look-up in the DNS gives no temporary error
//	TIMEOUT:seconds        that time, since the epoch, is past
//	AGE:interval           the message is that old: 1d12h30m
//	IO:text                by chance, one time in ten
//	SCRIPT:name/argument   MAILBIN/bin/name argument exits with 0
//	HOME:user              the user's home directory is there
//
// What is none of these waits, until it expires.
package hold

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/internal/interval"
	"zsched/ta"
)

// scriptTime is how long a script or a look-up may take.
const scriptTime = 5 * time.Minute

// Agent is the agent. Its Deliver goes into a ta.Server. The functions are
// what it asks of the world; New gives those of the system.
type Agent struct {
	Postoffice string // where public/ and router/ are
	Host       string // our own name, for the router's trace
	// RouterLevels is 1 where router/ has letter directories (ROUTERDIRHASH);
	// RouterNotify is the socket of a router that listens for names
	// (ROUTERNOTIFY), or "".
	RouterLevels int
	RouterNotify string

	Now func() time.Time
	// LookUp asks the DNS; the error is nil or temporary. A name that does not
	// exist is an answer.
	LookUp func(ctx context.Context, domain, kind string) error
	// Script runs a script and says whether it exited with 0.
	Script func(ctx context.Context, name, argument string) error
	// Home looks for a user's home directory.
	Home func(user string) error
	// Chance is a number below n.
	Chance func(n int) int
}

// Deliver submits the recipients of m again if their condition is true, and
// defers them if not. All recipients of a job line have the same condition.
func (a *Agent) Deliver(m *ta.Message) {
	conditions := map[string]error{}
	var ready []*ta.Recipient
	for i := range m.Recipients {
		r := &m.Recipients[i]
		wait, asked := conditions[r.Host]
		if !asked {
			wait = a.wait(r.Host, m.ModifiedAt)
			conditions[r.Host] = wait
		}
		if wait != nil {
			r.Report(waiting(wait))
			continue
		}
		ready = append(ready, r)
	}
	a.again(m, ready)
}

func waiting(why error) ta.Result {
	return ta.Result{
		Status: ta.Deferred,
		Fields: ta.Fields{
			Action:     "delayed",
			Code:       "4.4.3 (waiting)",
			Diagnostic: "x-local; 466 (" + why.Error() + ")",
		},
		Text: why.Error(),
	}
}

// wait says why a condition is not true yet; nil if it is.
func (a *Agent) wait(condition string, born time.Time) error {
	class, parameter, ok := strings.Cut(condition, ":")
	if !ok {
		return fmt.Errorf("%q is no condition", condition)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptTime)
	defer cancel()
	switch strings.ToUpper(class) {
	case "NS":
		domain, kind, _ := strings.Cut(parameter, "/")
		return a.LookUp(ctx, domain, strings.ToUpper(kind))
	case "TIMEOUT":
		seconds, err := strconv.ParseInt(parameter, 10, 64)
		if err != nil {
			return fmt.Errorf("TIMEOUT %q is no time", parameter)
		}
		return a.until(time.Unix(seconds, 0))
	case "AGE":
		age, err := interval.Parse(strings.ToLower(parameter))
		if err != nil {
			return fmt.Errorf("AGE %q: %w", parameter, err)
		}
		return a.until(born.Add(age))
	case "IO":
		if a.Chance(10) != 0 {
			return errors.New("another time")
		}
		return nil
	case "SCRIPT":
		name, argument, _ := strings.Cut(parameter, "/")
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\x00") {
			return fmt.Errorf("SCRIPT %q is no name of a script", parameter)
		}
		return a.Script(ctx, name, argument)
	case "HOME":
		return a.Home(parameter)
	}
	return fmt.Errorf("unknown condition %q", class)
}

func (a *Agent) until(t time.Time) error {
	if a.Now().Before(t) {
		return fmt.Errorf("waiting until %s", t.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return nil
}
