package daemon

// Notices to senders: how the spool writes them, and what is logged about them.

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/report"
	"zsched/scheduler/spool"
)

// Reporter writes the notices of the spool: spool.Reporter. Any goroutine may use
// it.
type Reporter struct{ current atomic.Pointer[reporter] }

// reporter has the settings of a Reporter from the configuration in force.
type reporter struct {
	*report.Reporter
	answersNull bool
}

// NewReporter returns a Reporter with the settings of r.
func NewReporter(r *report.Reporter) *Reporter {
	n := new(Reporter)
	n.Configure(r)
	return n
}

// Configure changes the settings. They apply to all notices that are written later.
func (r *Reporter) Configure(to *report.Reporter) {
	r.current.Store(&reporter{to, to.AnswersNullSender()})
}

// AnswersNullSender reports whether there is a notice for messages with a null
// sender. Configure found that out: the form of notices may name addresses that
// get copies.
func (r *Reporter) AnswersNullSender() bool { return r.current.Load().answersNull }

// Report composes a notice and submits it.
func (r *Reporter) Report(o *spool.Owed) (file string, err error) {
	m := report.Message{
		SpoolID: o.SpoolID(), File: o.File, ArrivedAt: o.ModifiedAt, Temp: o.Temp,
		Recipients: report.Recipients(o.File, o.Lines),
	}
	if at := o.File.Body; o.Message != nil && at >= 0 && at <= o.Size {
		m.Body = io.NewSectionReader(o.Message, at, o.Size-at)
	}
	for i := range m.Recipients {
		m.Recipients[i].RetryUntil = o.RetryUntil
	}
	file, err = r.current.Load().Report(&m, time.Now())
	if errors.Is(err, report.ErrNobody) {
		return "", nil
	}
	return file, err
}

// logNotice logs that a notice was written.
func (f *files) logNotice(m scheduler.MessageID, notice string) {
	if notice == "" {
		return
	}
	file := strconv.FormatUint(uint64(m), 10)
	if strings.HasSuffix(notice, ctlfile.NoticeSuffix) {
		f.loop.log.Warn().Str("file", file).Str("notice", notice).Msg("a notice that nobody gets was kept")
	} else {
		f.loop.log.Info().Str("file", file).Str("notice", notice).Msg("notice to the sender written")
	}
	if f.syslog != nil {
		f.syslog(scheduler.Info, file+": notice to the sender: "+notice)
	}
}
