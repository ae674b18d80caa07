package receiver

// What is taken of a control file that another node pushes. The control file is written
// anew from these lines (ctlfile(5)), and nothing else of it comes into the queue:
//
//	o              taken, if the message is so long
//	l, e, N, R, n  taken
//	s              taken with the privilege of nobody
//	r, X           user, class and number of delay notices; see below
//	O              taken if it names the node that pushes; it has channel and host
//	H              becomes the hold record of a held message
//	D              become the d lines of the recipient
//	m              taken
//	@, i           written anew
//	v              dropped: root appends to the file that it names
//	x              dropped: it removes other mail from the queue
//	T              dropped: it has had its effect at the other node
//	tag, pid, d    dropped: they are those of the way here
//
// v and x are dropped with Options.Programs, too. The message file belongs to the user of
// this process, whoever owns it at the other node: its owner would have rights here.
//
// Which recipients are taken: without Options.Programs, a node that pushes can make this
// machine run no program and write no file except mailboxes:
//
//	channel not in Options.Channels     refused: its agent may run programs
//	|command, /path, :include:          refused, in each channel
//	channel hold, condition SCRIPT:     refused
//	others                              taken with the privilege of nobody
//
// A recipient that is done is only reported on, and is taken from each channel.

import (
	"fmt"
	"slices"
	"strings"

	"zsched/ctlfile"
)

// refuses returns why a recipient is not taken, or "".
func (o *Options) refuses(r *ctlfile.Recipient, from *ctlfile.Origin) string {
	switch {
	case o.Programs || from.Done != 0:
		return ""
	case !slices.Contains(o.Channels, from.Channel):
		return fmt.Sprintf("channel %.100s is not in PARAMxfer-channels of this node", from.Channel)
	case isProgram(r.User) || from.Channel == "hold" && strings.Contains(strings.ToLower(from.Host), "script:"):
		return "programs, files and lists of users are not accepted"
	}
	return ""
}

// isProgram reports whether a user is a program, a file or a list.
func isProgram(user string) bool {
	user = strings.TrimLeft(user, `"\ <`)
	return strings.HasPrefix(user, "|") || strings.HasPrefix(user, "/") || strings.HasPrefix(strings.ToLower(user), ":include:")
}

// contents returns what is taken of a control file, with the chosen recipients.
func (o *Options) contents(f *ctlfile.File, chosen []int) *ctlfile.Contents {
	pushed := f.Extract(chosen)
	taken := &ctlfile.Contents{Body: pushed.Body, LogID: pushed.LogID, ErrorTo: pushed.ErrorTo, HostLists: true}
	for _, block := range pushed.Blocks {
		b := ctlfile.HeaderBlock{Header: block.Header}
		for _, from := range block.Envelopes {
			e := ctlfile.Envelope{Sender: o.address(from.Sender), ErrorTo: from.ErrorTo}
			for i := range from.Recipients {
				r := &from.Recipients[i]
				e.Recipients = append(e.Recipients, ctlfile.EnvelopeRecipient{
					Address: o.address(r.Address), Class: r.Class, Delays: r.Delays,
					DSN: r.DSN, Ret: r.Ret, EnvID: r.EnvID, Origin: r.Origin, Hold: r.Hold, Unreported: r.Unreported,
				})
			}
			b.Envelopes = append(b.Envelopes, e)
		}
		taken.Blocks = append(taken.Blocks, b)
	}
	return taken
}

// address returns an address with the privilege that it has here.
func (o *Options) address(a ctlfile.Address) ctlfile.Address {
	if !o.Programs {
		a.Privilege = ctlfile.Nobody
	}
	return a
}
