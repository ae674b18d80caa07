package report

// Submitting: how a notice is stored in router/ or postman/.

import (
	"bytes"
	"path/filepath"
	"strconv"
	"syscall"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
)

// submit gives a notice to the router.
func (r *Reporter) submit(n *Notice, c *Composed, temp string) (string, error) {
	s := &queue.Submission{
		By: r.By, From: ctlfile.Address{Channel: "error"}, Header: c.Header,
		Source: ctlfile.Source{Name: n.Source}.String(),
	}
	for _, address := range n.To {
		original := "rfc822;" + ctlfile.EncodeXtext(address)
		if !isASCII(address) {
			original = "utf-8;" + ctlfile.EncodeXtext(encodeUTF8Address(address))
		}
		s.To = append(s.To, &ctlfile.Recipient{
			Address: ctlfile.Address{User: address},
			// A notice must not lead to another notice.
			DSN: "NOTIFY=NEVER ORCPT=" + original,
		})
	}
	name, err := r.give(s, c, temp)
	if name == "" {
		return "", err
	}
	return "router/" + name, err
}

// give gives a submission to the router, alone or together with others, and returns its name
// below router/.
func (r *Reporter) give(s *queue.Submission, c *Composed, temp string) (name string, err error) {
	if r.Group == nil {
		file, err := s.Write(r.Postoffice, temp, bytes.NewReader(c.Body))
		if err != nil {
			return "", err
		}
		router := r.Router
		router.Postoffice = r.Postoffice
		if name, err = router.Give(file); name == "" {
			_ = postoffice.RemovePath(file)
		}
		return name, err
	}
	f, err := postoffice.CreateTemp(r.Postoffice, temp)
	if err != nil {
		return "", err
	}
	if err := s.Encode(f, bytes.NewReader(c.Body)); err != nil {
		_ = f.Close()
		_ = postoffice.RemovePath(f.Name())
		return "", err
	}
	return r.Group.Commit(f)
}

// store stores a notice without an addressee in postman/, under the name that
// ZMailer's scheduler gives it.
func (r *Reporter) store(c *Composed, temp string) (string, error) {
	s := &queue.Submission{
		By: r.By, From: ctlfile.Address{Channel: "error"}, Header: c.Header,
		To: []*ctlfile.Recipient{{Address: ctlfile.Address{User: "postmaster"}, DSN: "NOTIFY=NEVER"}},
	}
	file, err := s.Write(r.Postoffice, temp, bytes.NewReader(c.Body))
	if err != nil {
		return "", err
	}
	info, err := postoffice.Lstat(file)
	if err != nil {
		return "", err
	}
	name := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10) + ctlfile.NoticeSuffix
	postman := filepath.Join(r.Postoffice, "postman")
	if err := postoffice.Publish(file, filepath.Join(postman, name)); err != nil {
		_ = postoffice.RemovePath(file)
		return "", err
	}
	return "postman/" + name, postoffice.SyncDir(postman)
}
