package receiver

// Which recipients are taken. Without Options.Programs, a node that pushes can make this
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

// nobody is the uid of the user nobody, as agents and the router have it.
const nobody = "65534"
