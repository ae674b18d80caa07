package smtpserver

// The log: a line for each refusal, each accepted message and each session. smtpserver(8), "LOG",
// lists the fields, which have the same names in all of them.

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/rs/zerolog"
)

const (
	// maxRefusalLines bounds the lines about refusals in a session.
	maxRefusalLines = 20
	// maxSessionLines is how many sessions of an address block are logged in a sessionLinePeriod.
	maxSessionLines   = 1000
	sessionLinePeriod = time.Minute
	// maxLoggedRecipients bounds the recipients in a line, and maxLoggedText what a client has
	// given, in bytes.
	maxLoggedRecipients = 20
	maxLoggedText       = 320
)

// subject is what the command in hand is about, for the log.
type subject struct {
	from string   // "" if there is none
	to   []string // up to maxLoggedRecipients, each cut
	user string   // who tries to log in
	err  error    // the cause of a refusal, or of the session's end; nil or a refusal: nothing more is to be said
}

// line begins a line about a client.
func (s *session) line() *zerolog.Event {
	line := s.o.Log.Info().Stringer("client", s.client)
	addText(line, "user", s.user+s.about.user) // a session logs in once
	addText(line, "from", s.about.from)
	if to := s.about.to; len(to) > 0 {
		line.Strs("to", to)
	}
	if cause := s.about.err; !errors.As(cause, new(*refusal)) {
		line.AnErr("error", cause)
	}
	return line
}

// addText adds a text that may come from the client, unless it is empty.
func addText(line *zerolog.Event, name, text string) {
	if text != "" {
		line.Str(name, cutText(text))
	}
}

func cutText(text string) string { return text[:min(len(text), maxLoggedText)] }

// logRefusal logs a refusal. The first of a session are logged, and wrong passwords in any case:
// smtpserver(8) has a filter of fail2ban for them.
func (s *session) logRefusal(r *refusal) {
	if r != errPassword && (!s.logged || s.refusals > maxRefusalLines) {
		return
	}
	line := s.line().Int("code", r.code).Str("status", r.status).Str("reason", r.reason).Str("text", r.text)
	if r == errTooManySessions {
		line.Int("sessions_unlogged", s.unlogged)
	}
	line.Msg("refused")
}

// logEnd logs the session when it has ended.
func (s *session) logEnd() {
	if !s.logged {
		return
	}
	line := s.line().Str("reason", s.reason)
	addText(line, "helo", s.helo)
	if state := s.tls(); state != nil {
		line.Str("tls", tls.VersionName(state.Version))
	}
	line.Float64("seconds", time.Since(s.began).Round(time.Millisecond).Seconds()).
		Int("messages", s.messages).Int("refusals", s.refusals).
		Int("refusals_unlogged", max(0, s.refusals-maxRefusalLines)).
		Int("sessions_unlogged", s.unlogged).Int64("bytes", s.received).Msg("session")
}
