// Package router is the static router: it takes submissions out of $POSTOFFICE/router, routes
// them by tables (package table) and puts them into the queue (package queue).
//
//	service      the loop: what wakes the router
//	waiting      the submissions that wait, whose owners take turns
//	batch        a batch: what is opened, routed, queued and logged
//	submissions  the files in router/, and those that cannot be read
//	router       what a submission becomes
package router

// What a submission becomes: its sender, its recipients, the header that is delivered, and
// the contents of its control file. Nothing here changes a file.

import (
	"errors"
	"fmt"
	"io"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/internal/process"
	"zsched/queue"
	"zsched/router/table"
)

// Submission is a message with its envelope before it.
type Submission struct {
	Name       string // in errors
	Message    io.ReaderAt
	Size       int64 // with the envelope
	ModifiedAt time.Time
	Number     uint64 // that the message has in the queue
	UID        int    // of the user who submitted it
}

// Unreadable is the reason why a submission is quarantined. After any other error it
// is tried again.
type Unreadable struct{ Err error }

func (u Unreadable) Error() string { return u.Err.Error() }

// Unreadablef returns an Unreadable with a text.
func Unreadablef(format string, args ...any) error { return Unreadable{fmt.Errorf(format, args...)} }

// Machine is what the router knows of this machine, besides the tables.
type Machine struct {
	Host       string // for Received and Message-ID
	MaxHops    int
	MaxSize    int64 // bytes of a message; 0: no limit
	MaxTargets int   // recipients of a message with the members of aliases
	// MaxUserRecipients is how many recipients the envelope of a user who is not trusted may have.
	// When the submissions of such a user had more in a minute, the others wait until it is over.
	MaxUserRecipients int
	Trusted           map[int]bool // users who may name any sender
	Login             func(uid int) string
}

// Routed is what a submission becomes.
type Routed struct {
	Contents   *ctlfile.Contents // its Name is empty
	ID         string            // spoolid
	MessageID  string            // Message-ID
	Sender     string            // "" for the null sender
	From       string            // rcvdfrom
	Recipients int
	// Cost is what counts against the owner's MaxUserRecipients a minute: the recipients, and the bytes of
	// envelope and header.
	Cost    int
	Refused string // the form of the notice, if it cannot be delivered to anybody
}

// Route reads a submission and routes its recipients.
func (m *Machine) Route(in *Submission, t *table.Table) (*Routed, error) {
	e, rest, err := queue.ReadEnvelope(io.NewSectionReader(in.Message, 0, in.Size))
	var malformed *queue.EnvelopeError
	if errors.As(err, &malformed) {
		return nil, Unreadablef("%s:%w", in.Name, err)
	} else if err != nil {
		return nil, err
	}
	if len(e.To) == 0 {
		return nil, Unreadablef("the envelope has no recipient")
	}
	text, body, _, err := header.Read(rest)
	refused := ""
	if errors.Is(err, header.ErrUnfit) {
		refused = table.BadHeader
	} else if err != nil {
		return nil, err
	}
	// Other programs may take a CR within a field for a line end, and what follows for a
	// field that the checks below do not see (RFC 5321 section 2.3.8).
	fields := header.Split(strings.ReplaceAll(text, "\r", " "))
	r := &Routed{ID: ctlfile.SpoolID(in.Number, in.ModifiedAt)}
	from := m.sender(in, e, t)
	r.Sender = from.address
	// The size counts holes too: whoever reads the message gets them as zeros.
	if size := in.Size - e.Size; m.MaxSize > 0 && size > m.MaxSize {
		if refused = table.TooLarge; r.Sender == "" {
			return nil, Unreadablef("the message has %d bytes, more than the %d of ROUTERMAXSIZE, and no sender who could be told", size, m.MaxSize)
		}
	}
	to := e.To
	if n := len(to); n > m.MaxUserRecipients && !from.trusted {
		if refused = table.ManyRecipients; r.Sender == "" {
			return nil, Unreadablef("the envelope has %d recipients, more than the %d that a user may give it, and no sender who could be told", n, m.MaxUserRecipients)
		}
		to = []queue.EnvelopeRecipient{{Address: to[0].Address}} // one line of the notice stands for all
	}
	r.Refused = refused
	var targets []table.Target
	if refused != "" {
		// If the header is bad, the notice has it as a part of the body.
		targets = refuse(refused, to, t)
	} else if targets, err = m.targets(e.To, from, fields, t); err != nil {
		return nil, err
	}
	if r.Recipients = len(targets); refused != "" {
		r.Recipients = len(e.To)
	}
	r.Cost = max(r.Recipients, len(e.To)) + int(e.Size+body)/bytesPerRecipient
	fields, r.MessageID = m.header(in, e, fields, from, r.ID)
	if m.Trusted[in.UID] {
		r.From = e.RcvdFrom
	}
	r.Contents = &ctlfile.Contents{
		Body: e.Size + body, MessageID: r.MessageID, Source: source(in.UID, from, e).String(),
		Blocks: []ctlfile.HeaderBlock{{Envelopes: envelopes(in.UID, from, e, targets), Header: fields.String()}},
	}
	return r, nil
}

// origin is the sender of a submission.
type origin struct {
	address string // with its domain; "" for the null sender
	// login is the address of the user who submitted it. trusted says that the user
	// may name any sender.
	login   string
	trusted bool
}

// sender decides who the sender is. A user who is not trusted can only be the sender
// personally, or use the null sender.
func (m *Machine) sender(in *Submission, e *queue.Envelope, t *table.Table) origin {
	login := m.Login(in.UID)
	o := origin{login: login + "@" + t.Domain, trusted: m.Trusted[in.UID]}
	local, domain, ok := t.Split(e.From)
	switch {
	case e.Null:
	case e.From == "":
		o.address = o.login
	case o.trusted && ok:
		o.address = local + "@" + domain
	case o.trusted:
		// The address may be valid although no submission may name it as a recipient.
		// If it is not, the sender is null: it is better to lose notices than the mail.
		bare := strings.TrimSuffix(strings.TrimPrefix(e.From, "<"), ">")
		if _, err := mail.ParseAddress("<" + bare + ">"); err == nil {
			o.address = bare
		}
	case ok && t.IsLocal(local, domain) && (local == login || strings.HasPrefix(local, login+"+") && utf8.ValidString(local)):
		o.address = local + "@" + domain
	default:
		o.address = o.login
	}
	return o
}

// wrote reports whether the fields of a name have one address, that of the user who
// submitted the message.
func (o origin) wrote(fields header.Fields, name string) bool {
	if fields.Count(name) != 1 {
		return false
	}
	list, err := fields.Addresses(name)
	return err == nil && len(list) == 1 &&
		(strings.EqualFold(list[0], o.login) || strings.EqualFold(list[0], o.address))
}

// source says where a submission came from. Only a trusted user can say so; the
// source of another one's is that user, or the one who has the uid.
func source(uid int, from origin, e *queue.Envelope) ctlfile.Source {
	if from.trusted {
		return e.Source
	}
	return ctlfile.Source{Name: ctlfile.UserSource(process.UserOf(uid)), UTF8: e.Source.UTF8}
}

// targets routes the recipients. It returns each target once for each sender: a recipient that
// is named twice, or by two addresses, is one, and no request for notices about it is lost.
// The null sender stays, whatever lists a message goes to: otherwise a notice would lead to notices.
func (m *Machine) targets(to []queue.EnvelopeRecipient, from origin, fields header.Fields, t *table.Table) ([]table.Target, error) {
	looping := fields.Count("Received") > m.MaxHops
	var list []table.Target
	index := map[table.Target]int{}
	expansion := t.NewExpansion(m.MaxTargets)
	for _, r := range to {
		var targets []table.Target
		if address, ok := t.Address(r.Address); looping && ok {
			targets = []table.Target{table.Fail(table.HopCount, address, r.DSN)}
		} else {
			targets = expansion.Route(r.Address, r.DSN)
		}
		if expansion.Exceeded() {
			return nil, Unreadablef("with the members of aliases it has more than %d recipients", m.MaxTargets)
		}
		for _, target := range targets {
			if from.address == "" {
				target.Owner = ""
			}
			key := target
			key.DSN = ""
			if at := strings.LastIndexByte(key.User, '@'); at >= 0 && key.Channel != "error" {
				key.User = key.User[:at] + strings.ToLower(key.User[at:])
			}
			if i, ok := index[key]; ok {
				list[i].DSN = ctlfile.MergeDSN(list[i].DSN, target.DSN)
				continue
			}
			index[key] = len(list)
			list = append(list, target)
		}
	}
	return list, nil
}

// refuse returns the targets of a message that cannot be delivered. Its sender gets a
// notice of that form.
func refuse(form string, to []queue.EnvelopeRecipient, t *table.Table) []table.Target {
	var list []table.Target
	for _, r := range to {
		address, ok := t.Address(r.Address)
		if !ok {
			address = r.Address
		}
		list = append(list, table.Fail(form, address, r.DSN))
	}
	return list
}

// envelopes returns the recipients by sender: the owners of lists, and at the end the sender
// of the submission. Old programs send all notices to the last sender, and turns are those of
// its domain.
func envelopes(uid int, from origin, e *queue.Envelope, targets []table.Target) []ctlfile.Envelope {
	var list []ctlfile.Envelope
	made := map[string]int{}
	for _, t := range targets {
		i, ok := made[t.Owner]
		if !ok {
			address := from.address
			if t.Owner != "" {
				address = t.Owner
			}
			i = len(list)
			made[t.Owner] = i
			list = append(list, ctlfile.Envelope{Sender: senderAddress(address, uid)})
		}
		r := ctlfile.EnvelopeRecipient{
			Address: ctlfile.Address{Channel: t.Channel, Host: t.Host, User: t.User, Privilege: strconv.Itoa(t.UID)},
			DSN:     t.DSN,
		}
		if t.Owner == "" {
			r.Ret, r.EnvID = e.Ret, e.EnvID
		}
		list[i].Recipients = append(list[i].Recipients, r)
	}
	if i, ok := made[""]; ok {
		last := list[i]
		list = append(slices.Delete(list, i, i+1), last)
	}
	return list
}

// senderAddress is the address of an s line.
func senderAddress(address string, uid int) ctlfile.Address {
	if address == "" {
		return ctlfile.Address{Channel: "error", Host: "<>", User: "<>", Privilege: strconv.Itoa(uid)}
	}
	return ctlfile.Address{Channel: table.Local, Host: address, User: address, Privilege: strconv.Itoa(uid)}
}

// header returns the header that is delivered, and the Message-ID for logs: a
// Received field, then the fields without Bcc and Return-Path, then the fields that
// were missing.
func (m *Machine) header(in *Submission, e *queue.Envelope, fields header.Fields, from origin, id string) (header.Fields, string) {
	at := in.ModifiedAt
	fields = fields.Without("Bcc", "Resent-Bcc", "Return-Path")
	if !from.trusted && fields.Has("Sender") && !from.wrote(fields, "Sender") {
		fields = fields.Without("Sender")
	}
	all := header.Fields{m.received(e, from, id, at)}
	all = append(all, fields...)
	messageID := fields.Value("Message-ID")
	if messageID == "" || len(messageID) > 500 || strings.ContainsFunc(messageID, ctlfile.IsControl) {
		messageID = "<" + id + "@" + m.Host + ">"
	}
	if !fields.Has("Message-ID") {
		all = append(all, "Message-ID: "+messageID+"\n")
	}
	if !fields.Has("Date") {
		all = append(all, "Date: "+at.Format(time.RFC1123Z)+"\n")
	}
	if !fields.Has("From") {
		all = append(all, "From: "+displayed(from, m.Host)+"\n")
	} else if !from.trusted && !fields.Has("Sender") && !from.wrote(fields, "From") {
		all = append(all, "Sender: "+from.login+"\n")
	}
	return all, messageID
}

// received returns the trace field (RFC 5321 section 4.4). Only a trusted user can
// say where a message came from.
func (m *Machine) received(e *queue.Envelope, from origin, id string, at time.Time) string {
	date := at.Format(time.RFC1123Z)
	if !from.trusted || e.RcvdFrom == "" {
		return fmt.Sprintf("Received: by %s (from %s)\n\tid %s; %s\n", m.Host, from.login, id, date)
	}
	protocol := ""
	if e.With != "" {
		protocol = " with " + e.With
	}
	return fmt.Sprintf("Received: from %s by %s%s\n\tid %s; %s\n", e.RcvdFrom, m.Host, protocol, id, date)
}

// displayed returns the value of a From field that the router adds.
func displayed(from origin, host string) string {
	switch {
	case from.address != "":
		return from.address
	case from.trusted:
		return "MAILER-DAEMON@" + host
	}
	return from.login
}
