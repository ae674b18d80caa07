// Package state is the format of POSTOFFICE/.scheduler.state, in which the
// scheduler saves what it knows about the mail beyond the control files:
// scheduler-state(5). A later scheduler reads it, so that mail keeps its attempts and
// its retry times across a restart.
//
// The file is advice only. A line that is torn, malformed or of an unknown kind
// is skipped. A line about a message that does not exist is never looked up. The file is
// always written as a whole and put in the place of the one before.
//
//	scheduler-state 1
//	d NUMBER "NOTARY" "TEXT"
//	r SPOOLID OFFSET MTIME ATTEMPTS NEXT FED STEP FLAGS NUMBER
//	h "CHANNEL" "HOST" UNTIL STEP FLAGS "SITE"
//	o SPOOLID MTIME VERB "CHANNEL" "HOST" "TOCHANNEL" "TOHOST" "BY" "BECAUSE"
//
// The first line gives the version. Nothing is read from the file of another version.
//
// A d line is a diagnostic, as an agent reported it. Later lines
// refer to it by its number; 0 is none. An r line is the recipients of a message for a channel and
// host: the number of the control file, the offset of the first of them that has no outcome yet, the
// mtime of the message file, how often it was tried, when they are due (0: they do not wait), when an
// agent was last given them (0: never), the next step of retries, and flags, of which there are none
// now. An h line is the mail for a channel and host: the end of its suspension (0: none), the next
// step, d (dead), and the site that an agent has reported. An o line is an order that waited
// when the scheduler stopped, on the mail of a message for a channel and host. Of several lines about
// one recipient or thread, the last counts. Times are in seconds since the epoch. Quoted words are as
// in Go.
//
// Later versions may add other kinds of lines, each with a letter of its own, and new
// fields at the end of a line other than an o line: readers skip both.
package state

import (
	"math"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/view"
)

// header is the first line.
const header = "scheduler-state 1"

// maxLine is longer than every line that is written: a diagnostic has two texts of
// at most 1000 bytes, each of which takes at most four when it is quoted.
const maxLine = 16 << 10

// diagnostic is the text of a report.
type diagnostic struct{ notary, text string }

func (f *fields) diagnostic(number *uint32, d *diagnostic) {
	count(f, number, math.MaxUint32)
	f.quoted(&d.notary)
	f.quoted(&d.text)
}

// recipient has the fields of an r line; report is the number of the last report.
func (f *fields) recipient(r *scheduler.SavedRecipient, report *uint32) {
	count(f, &r.Message, math.MaxUint64)
	count(f, &r.Offset, math.MaxUint32)
	count(f, &r.ModifiedAt, math.MaxUint32)
	count(f, &r.Attempts, math.MaxUint16)
	count(f, &r.NextAt, math.MaxUint32)
	count(f, &r.FedAt, math.MaxUint32)
	count(f, &r.Step, math.MaxUint8)
	f.flag(new(bool))
	count(f, report, math.MaxUint32)
}

// thread has the fields of an h line.
func (f *fields) thread(t *scheduler.SavedThread) {
	f.quoted(&t.Channel)
	f.quoted(&t.Host)
	count(f, &t.SuspendedUntil, math.MaxUint32)
	count(f, &t.Step, math.MaxUint8)
	f.flag(&t.Dead)
	f.quoted(&t.Site)
}

// order has the fields of an o line.
func (f *fields) order(o *scheduler.SavedOrder) {
	modified, verb, target := o.ModifiedAt.Unix(), string(o.Verb), &o.Targets[0]
	count(f, &target.Message, math.MaxUint64)
	count(f, &modified, math.MaxUint32)
	f.word(&verb)
	for _, word := range [...]*string{&target.Channel, &target.Host, &o.To.Channel, &o.To.Host, &o.By, &o.Because} {
		f.quoted(word)
	}
	if !f.writing {
		o.ModifiedAt, o.Verb, o.Back = time.Unix(modified, 0), view.Verb(verb), true
		f.bad = f.bad || !o.Verb.IsAboutMail() || len(f.b) > 0
	}
}
