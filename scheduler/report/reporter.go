package report

// The reporter: what a notice about a message contains, and who gets it.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/queue"
)

// Reporter writes the notices of a postoffice. It does not change, so several
// goroutines may use it.
type Reporter struct {
	Postoffice string
	// Host is the DNS name of this mail system, in Reporting-MTA and From.
	Host string
	// By names who submits notices, for the Received field: "scheduler@host".
	By string
	// Router says where notices are submitted. Its Postoffice is ignored.
	Router queue.Router
	// Group lets notices that are written at the same time share their waits for
	// the disk; nil: each notice waits separately.
	Group *queue.GroupCommit
	// FormFile is the path of the form, usually MAILSHARE/forms/delivery. If
	// there is no such file, the built-in form is used.
	FormFile string
	// HeadersOnly makes a notice of failure return only the header if the sender
	// gave no RET, and not the complete message (option -n).
	HeadersOnly bool
	// MaxBody is the size in bytes of the largest body that is returned. 0 means
	// DefaultMaxBody.
	MaxBody int64
	// StoreErrors stores notices without an addressee, which are about messages with
	// a null sender, in postman/ (PARAMstore-error-on-error).
	StoreErrors bool
}

// DefaultMaxBody is the default of Reporter.MaxBody.
const DefaultMaxBody = 256 << 10

// Message is a message about which a notice is to be sent.
type Message struct {
	SpoolID   string
	File      *ctlfile.File
	ArrivedAt time.Time
	// Recipients are those of the notice, from the function Recipients. There is
	// at least one.
	Recipients []Recipient
	// Body is the message's body, which is read only if the notice returns it; nil
	// if it is not available.
	Body *io.SectionReader
	// Temp begins the names of temporary files.
	Temp string
}

// ErrNobody says that a notice has no addressee: the sender of the message is
// null, StoreErrors is not set, and the form names no address for copies, or the message is
// itself a notice that only such addresses get.
var ErrNobody = errors.New("the sender is null, and nobody gets a copy")

// AnswersNullSender reports whether messages with a null sender lead to a notice:
// to the addresses of the form, or in postman/.
func (r *Reporter) AnswersNullSender() bool {
	form, err := r.form()
	return r.StoreErrors || err == nil && form != nil && len(form.Copies) > 0
}

// Report composes a notice and submits it. It returns the file of the notice,
// below the postoffice. When it returns, the notice is on disk, unless Async is set.
// An error together with a file says that the notice may not survive a crash.
func (r *Reporter) Report(m *Message, now time.Time) (file string, err error) {
	n, err := r.Notice(m, now)
	if err != nil {
		return "", fmt.Errorf("notice about %s: %w", m.SpoolID, err)
	}
	composed, err := Compose(n)
	if err == nil && len(n.To) == 0 {
		file, err = r.store(composed, m.Temp)
	} else if err == nil {
		file, err = r.submit(n, composed, m.Temp)
	}
	if err != nil {
		return file, fmt.Errorf("notice about %s: %w", m.SpoolID, err)
	}
	return file, nil
}

// Notice returns the content of the notice about a message.
func (r *Reporter) Notice(m *Message, now time.Time) (*Notice, error) {
	form, err := r.form()
	if err != nil {
		return nil, err
	}
	n := &Notice{
		Host: r.Host, SpoolID: m.SpoolID, ArrivedAt: m.ArrivedAt, WrittenAt: now,
		Source: ctlfile.ParseSource(m.File.Source).Name, Recipients: m.Recipients, Form: form,
	}
	errorTo, null := m.noticesTo()
	if !null {
		n.To = errorAddresses(errorTo)
		n.Sender = n.To[0]
	}
	ret := n.addMessage(m)
	if form != nil && !(null && n.isAboutCopy()) {
		for _, copied := range form.Copies {
			if !slices.Contains(n.To, copied) {
				n.To = append(n.To, copied)
			}
		}
	}
	if len(n.To) == 0 && !r.StoreErrors {
		return nil, ErrNobody
	}
	return n, r.readBody(n, m, ret)
}

// noticesTo returns the address of the sender of the reported recipients, who have the same.
func (m *Message) noticesTo() (address string, null bool) {
	if len(m.Recipients) > 0 {
		if i := m.File.Find(m.Recipients[0].Offset); i >= 0 {
			return m.File.NoticesTo(i)
		}
	}
	return m.File.ErrorTo, m.File.NullSender
}

// loopField is the field with our host in the header of a notice that goes only to the
// addresses of the form, because the sender of the message is null.
const loopField = "X-Loop"

// isAboutCopy reports whether the message is such a notice of ours. If it cannot be
// delivered, another one would have the same fate, and so on without end.
func (n *Notice) isAboutCopy() bool {
	return strings.Contains("\n"+n.Header, "\n"+loopField+": "+oneLine(n.Host)+"\n")
}

// addMessage adds the header and the ENVID, and returns the RET, of the first reported
// recipient that is in the file, or else of the first in the file. A control file may
// have several blocks, each with a header of its own. ENVID and RET are parameters of the
// message: if the recipient has none, those of another one with its header count.
func (n *Notice) addMessage(m *Message) (ret string) {
	first := 0
	for i := range m.Recipients {
		if at := m.File.Find(m.Recipients[i].Offset); at >= 0 {
			first = at
			break
		}
	}
	if len(m.File.Recipients) == 0 {
		return ""
	}
	to := &m.File.Recipients[first]
	envID := to.EnvID
	ret = to.Ret
	for i := range m.File.Recipients {
		if other := &m.File.Recipients[i]; other.Header == to.Header {
			envID, ret = cmp.Or(envID, other.EnvID), cmp.Or(ret, other.Ret)
		}
	}
	n.Header, n.EnvelopeID = m.File.Headers(first), oneLine(ctlfile.DecodeXtext(envID))
	return ret
}

// readBody adds the body, if the notice returns it: only a notice of failure
// does (RFC 3461 section 4.3).
func (r *Reporter) readBody(n *Notice, m *Message, ret string) error {
	n.Full = !r.HeadersOnly
	switch {
	case strings.EqualFold(ret, "FULL"):
		n.Full = true
	case strings.EqualFold(ret, "HDRS"):
		n.Full = false
	}
	if !n.Full || n.count(Failed) == 0 || m.Body == nil {
		n.Full = false
		return nil
	}
	most := r.MaxBody
	if most == 0 {
		most = DefaultMaxBody
	}
	if m.Body.Size() > most {
		n.Full, n.TooLarge = false, true
		return nil
	}
	var err error
	if n.Body, err = io.ReadAll(m.Body); err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	return nil
}

// maxForm is how many bytes of a form are read.
const maxForm = 64 << 10

// form reads the form; nil if there is none.
func (r *Reporter) form() (*Form, error) {
	if r.FormFile == "" {
		return nil, nil
	}
	f, err := os.Open(r.FormFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxForm))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.FormFile, err)
	}
	return ParseForm(string(text)), nil
}

// errorAddresses returns the addresses that a notice goes to. If the error address
// is a program, a file or not an address at all, the notice goes to the postmaster:
// the router would run the program, or write the file, with rights that the sender
// does not have.
func errorAddresses(errorTo string) []string {
	if list := addressesIn(errorTo); len(list) > 0 {
		return list
	}
	return []string{"postmaster"}
}
