package report

// Diagnostics: what the d lines of a control file say about recipients.

import (
	"strings"

	"zsched/ctlfile"
)

// Recipients returns the recipients of a notice from some d lines of a control
// file, which are given by index into f.Diagnostics. There is one entry for each
// recipient, in the order of the lines. If several lines name a recipient, the
// last counts, but a delay never replaces an outcome. The caller selects the lines
// that the sender wants to be told of.
func Recipients(f *ctlfile.File, lines []int) (list []Recipient) {
	indexOf := make(map[int64]int, len(lines)) // in list, by offset
	for _, line := range lines {
		d := &f.Diagnostics[line]
		r := recipient(f, d)
		i, known := indexOf[d.Recipient]
		switch {
		case d.Recipient == 0 || !known:
			indexOf[d.Recipient] = len(list)
			list = append(list, r)
		case r.Action != Delayed || list[i].Action == Delayed:
			list[i] = r
		}
	}
	return list
}

// recipient returns what one d line says. Its notary has three to six fields
// separated by 0x01; the form with three has no status and no remote host.
func recipient(f *ctlfile.File, d *ctlfile.Diagnostic) Recipient {
	fields := strings.Split(d.Notary, "\x01")
	field := func(i int) string {
		if i < len(fields) {
			return strings.TrimSpace(fields[i])
		}
		return ""
	}
	r := Recipient{
		Address: field(0), Action: parseAction(field(1)), Status: field(2),
		Diagnostic: field(3), Remote: field(4),
		Text: d.Text, LastAttempt: d.At,
	}
	if len(fields) == 3 {
		r.Status, r.Diagnostic = "", field(2)
	}
	if r.Action == 0 {
		// The word is missing, or an agent did not know it. An unwanted notice
		// does less harm than a lost one.
		r.Action = Failed
	}
	if i := f.Find(d.Recipient); i >= 0 {
		to := &f.Recipients[i]
		r.Offset = to.Offset
		r.Original, _ = ctlfile.DSNWord(to.DSN, "ORCPT")
		// 0x03 stands for the user of the r line.
		if r.Address == "" || r.Address == "\x03" {
			r.Address = to.User
		}
	}
	r.Address = ctlfile.Unbracketed(r.Address)
	return r
}
