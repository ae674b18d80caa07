// Package hold is the agent of the channel hold, hold(8): mail that waits until
// a condition is met. The host word of a recipient is the condition,
//
//	CLASS:parameter
//
// and the user word is the address to try then: the agent submits the recipient
// to the router again. The classes, in upper or lower case:
//
//	NS:domain/TYPE         a DNS lookup gives no temporary error
//	TIMEOUT:seconds        that time, in seconds since 1970, is past
//	AGE:interval           the message is that old: 1d12h30m
//	SCRIPT:name/argument   MAILBIN/bin/name argument exits with 0
//
// A recipient with any other condition waits until it expires, and so does one
// that the router must not get from an agent: see queue.PlainAddress.
package hold

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"zsched/internal/postoffice"
	"zsched/queue"
	"zsched/ta"
)

// Agent is the agent. Its Deliver goes into a ta.Server. New sets the functions
// to those of the system; tests set others.
type Agent struct {
	Postoffice string // the directory that has queue/ and router/
	Host       string // the name of this machine, for the router's trace
	// RouterLevels is 1 if router/ has hash directories (ROUTERDIRHASH), else 0.
	RouterLevels int
	RouterNotify string // socket of a router that listens for names (ROUTERNOTIFY), or ""

	Now func() time.Time
	// LookUp looks a record up in the DNS. It returns only temporary errors: a
	// name that does not exist is not an error.
	LookUp func(ctx context.Context, domain, kind string) error
	// Script runs a script. The error is nil if it exits with 0.
	Script func(ctx context.Context, name, argument string) error
}

// New returns an agent that uses the clock and the resolver of this machine. Scripts are in mailbin/bin.
func New(postoffice, mailbin string) *Agent {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &Agent{
		Postoffice: postoffice,
		Host:       host,
		Now:        time.Now,
		LookUp:     lookUp,
		Script: func(ctx context.Context, name, argument string) error {
			return runScript(ctx, filepath.Join(mailbin, "bin", name), argument)
		},
	}
}

// Deliver submits the recipients of m again if their condition is met, and
// defers them if it is not. Each condition is tested once.
func (a *Agent) Deliver(m *ta.Message) {
	tested := map[string]error{}
	var ready []*ta.Recipient
	for i := range m.Recipients {
		r := &m.Recipients[i]
		why, known := tested[r.Host]
		if !known {
			why = a.test(r.Host, m.ModifiedAt)
			tested[r.Host] = why
		}
		if why == nil && !queue.PlainAddress(r.User) {
			why = fmt.Errorf("%.200q: %w", r.User, queue.ErrNotPlain)
		}
		if why != nil {
			r.Report(waiting(why))
			continue
		}
		ready = append(ready, r)
	}
	a.resubmit(m, ready)
}

func waiting(why error) ta.Result { return ta.Failed("4.4.3 (waiting)", why.Error()) }

// resubmit submits recipients of a message to the router again and reports each.
// There may be several submissions, because one cannot have two senders.
func (a *Agent) resubmit(m *ta.Message, ready []*ta.Recipient) {
	var chosen []int
	byOffset := map[int64]*ta.Recipient{}
	for _, r := range ready {
		chosen = append(chosen, m.File.Find(r.Offset))
		byOffset[r.Offset] = r
	}
	for _, s := range queue.Resubmissions(m.File, chosen) {
		name, err := a.submit(m, s)
		for _, to := range s.To {
			r := byOffset[to.Offset]
			if err != nil {
				r.Report(waiting(err))
				continue
			}
			// OK3: the sender gets no notice of this success, because the agent
			// that delivers the submission sends one.
			r.Report(ta.Result{
				Status: ta.OK3,
				Fields: ta.Fields{Action: "relayed", Code: "2.0.0"},
				Text:   "submitted again as " + name,
			})
		}
	}
}

// submit gives one submission to the router and returns its name below router/. After
// an error the recipients are tried again: the router does not have the submission, or it
// may not survive a crash.
func (a *Agent) submit(m *ta.Message, s *queue.Submission) (name string, err error) {
	s.By = "hold@" + a.Host
	body, err := m.Body()
	if err != nil {
		return "", fmt.Errorf("read the message: %w", err)
	}
	file, err := s.Write(a.Postoffice, "hold-", body)
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	router := queue.Router{Postoffice: a.Postoffice, Levels: a.RouterLevels, Notify: a.RouterNotify}
	name, err = router.Give(file)
	if name == "" {
		_ = postoffice.RemovePath(file)
	}
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	return name, nil
}
