package ctlfile

import "strings"

// Nobody is the privilege of one whose control file does not say it.
const Nobody = "65534"

// Extract is a control file for some recipients of f, given by index in
// ascending order, with all that the router once said of them. The T lines are
// left out: what they ask for has been done.
func (f *File) Extract(recipients []int) *Contents {
	d := &Contents{Body: f.Body, LogID: f.LogID, Verbose: f.Verbose, ErrorTo: f.ErrorTo, Obsoletes: f.Obsoletes}
	header, sender := int64(-2), -1
	for _, i := range recipients {
		r := &f.Recipients[i]
		if r.Header != header {
			header, sender = r.Header, -1
			d.Blocks = append(d.Blocks, HeaderBlock{Header: f.Headers(i)})
		}
		g := &d.Blocks[len(d.Blocks)-1]
		if r.Sender != sender {
			sender = r.Sender
			g.Envelopes = append(g.Envelopes, Envelope{Sender: numbered(f.Senders[sender].Address)})
		}
		e := &g.Envelopes[len(g.Envelopes)-1]
		e.Recipients = append(e.Recipients, EnvelopeRecipient{
			Address: numbered(r.Address), Class: r.Class, DSN: r.DSN, Ret: r.Ret, EnvID: r.EnvID,
		})
	}
	return d
}

// numbered cuts a quad's privilege to the number that the router writes.
func numbered(q Address) Address {
	q.Privilege, _, _ = strings.Cut(q.Privilege, " ")
	if q.Privilege == "" {
		q.Privilege = Nobody
	}
	return q
}
