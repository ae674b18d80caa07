// Package errormail is the agent for the channel error, errormail(8): it tells
// senders about addresses that the router could not route. The host of such a
// recipient is the name of a form, which says what is wrong with the address;
// the user is the address.
//
//	r           error nosuchuser bob@example.org 65534
//
// The notice is like that of the scheduler (package report), but with the form
// MAILSHARE/forms/nosuchuser instead of forms/delivery.
package errormail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/queue"
	"zsched/scheduler/report"
	"zsched/ta"
)

// Agent writes the notices. Its Deliver is for a ta.Server.
type Agent struct {
	Reporter report.Reporter // without its FormFile
	Forms    string          // the directory of the forms, MAILSHARE/forms
	Now      func() time.Time
	// Warn is told of notices that nobody gets, which are kept in postman/. nil: nobody is.
	Warn func(string)
}

// New returns an agent for a postoffice. domain is the DNS name of this mail
// system, or "" for that of this machine.
func New(postoffice, forms, domain string) *Agent {
	if domain == "" {
		if domain, _ = os.Hostname(); domain == "" {
			domain = "localhost"
		}
	}
	return &Agent{
		Reporter: report.Reporter{Postoffice: postoffice, Host: domain, By: "errormail@" + domain},
		Forms:    forms, Now: time.Now,
	}
}

// Deliver tells the senders about all recipients of m, each in one notice for each form.
func (a *Agent) Deliver(m *ta.Message) {
	type group struct {
		form   string
		sender int
	}
	members := map[group][]*ta.Recipient{}
	var groups []group
	for i := range m.Recipients {
		r := &m.Recipients[i]
		g := group{strings.ToLower(r.Host), r.Sender}
		if members[g] == nil {
			groups = append(groups, g)
		}
		members[g] = append(members[g], r)
	}
	for _, g := range groups {
		result := a.tell(m, g.form, members[g])
		for _, r := range members[g] {
			r.Report(result)
		}
	}
}

// tell writes the notice about recipients with the same form. The recipients are
// done when it is on disk.
func (a *Agent) tell(m *ta.Message, form string, rs []*ta.Recipient) ta.Result {
	about := report.Message{
		SpoolID: m.SpoolID(), File: m.File, ArrivedAt: m.ModifiedAt, Temp: "scheduler-errormail-",
	}
	for _, r := range rs {
		if wanted(r) {
			about.Recipients = append(about.Recipients, a.recipient(r, form))
		}
	}
	if len(about.Recipients) == 0 {
		return done("the sender wants no notice")
	}
	if body, err := m.Body(); err == nil {
		about.Body = body
	}
	reporter := a.Reporter
	reporter.FormFile = a.formFile(form)
	// Mail with a null sender and no route is mostly a notice that an error in the routes
	// has kept from its recipient. A notice about it is kept in any case.
	reporter.StoreErrors = a.Reporter.StoreErrors || form == "unresolvable"
	file, err := reporter.Report(&about, a.Now())
	switch {
	case errors.Is(err, report.ErrNobody):
		return done("the sender is null: no notice")
	case file == "":
		return ta.Failed("4.3.0", err.Error())
	}
	if strings.HasSuffix(file, ctlfile.NoticeSuffix) && a.Warn != nil {
		a.Warn(fmt.Sprintf("%s: the sender of %s is null, so nobody gets the notice about it (%s)", file, m.SpoolID(), form))
	}
	return done("notice " + file)
}

// done is the result of recipients that need nothing more. OK3 means that no notice
// of success is sent.
func done(text string) ta.Result {
	return ta.Result{Status: ta.OK3, Text: text, Fields: ta.Fields{Action: "delivered", Code: "2.0.0"}}
}

// meaning is what the name of a form says about a recipient.
type meaning struct{ status, text string }

// meanings are those of the forms that router(8) uses. Any other form means that the
// recipient failed, with the status 5.0.0.
var meanings = map[string]meaning{
	"nosuchuser":     {"5.1.1", "there is no user of this name"},
	"unresolvable":   {"5.1.2", "there is no route to this domain"},
	"nosuchdomain":   {"5.1.2", "there is no such domain"},
	"badaddress":     {"5.1.3", "this is not a mail address"},
	"toolarge":       {"5.3.4", "the message is larger than this host accepts"},
	"aliasloop":      {"5.4.6", "the aliases of this address lead back to it"},
	"hopcount":       {"5.4.6", "the message went through too many hosts and is in a loop"},
	"manyrecipients": {"5.5.3", fmt.Sprintf("too many recipients, at most %d in one submission: none of them gets it", queue.MaxUserRecipients)},
	"badheader":      {"5.6.0", "the header of the message is too long, or has too many fields or a NUL"},
}

func meaningOf(form string) meaning {
	if known, ok := meanings[form]; ok {
		return known
	}
	return meaning{"5.0.0", "the address cannot be routed"}
}

// wanted reports whether a recipient belongs in the notice. A null sender gets no
// notice, but the form may name somebody who gets a copy of a notice of failure.
func wanted(r *ta.Recipient) bool {
	nullSender := r.From.Channel == "error"
	return r.Notify.Wants(ctlfile.NotifyFailure) || nullSender
}

// recipient returns the entry of one recipient in the notice.
func (a *Agent) recipient(r *ta.Recipient, form string) report.Recipient {
	m := meaningOf(form)
	to := report.Recipient{
		Offset: r.Offset, Address: ctlfile.Unbracketed(r.User), Action: report.Failed, Status: m.status,
		LastAttempt: a.Now(), Text: m.text + " (" + form + ")", Diagnostic: "x-local; 500 (" + form + ")",
	}
	to.Original, _ = ctlfile.DSNWord(r.DSN, "ORCPT")
	return to
}

// formFile returns the path of a form. If there is no such file in the directory,
// it is the form of the scheduler's notices.
func (a *Agent) formFile(form string) string {
	if form != "-" && !strings.HasPrefix(form, ".") && filepath.Base(form) == form {
		path := filepath.Join(a.Forms, form)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return filepath.Join(a.Forms, "delivery")
}
