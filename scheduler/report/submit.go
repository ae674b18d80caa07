package report

// Submitting: how a notice gets into router/, or into postman/.

import (
	"bytes"
	"path/filepath"
	"strconv"
	"syscall"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
)

// submit gives a notice to the router.
func (r *Reporter) submit(n *Notice, c *Composed, temp string) (string, error) {
	s := &ctlfile.Submission{
		By: r.By, From: ctlfile.Address{Channel: "error"}, Header: c.Header,
	}
	for _, address := range n.To {
		original := "rfc822;" + ctlfile.EncodeXtext(address)
		if !isASCII(address) {
			original = "utf-8;" + ctlfile.EncodeXtext(encodeUTF8Address(address))
		}
		s.To = append(s.To, &ctlfile.Recipient{
			Address: ctlfile.Address{User: address},
			// A notice is never answered with another one.
			DSN: "NOTIFY=NEVER ORCPT=" + original,
		})
	}
	file, err := r.write(s, c, temp)
	if err != nil {
		return "", err
	}
	router := r.Router
	router.Postoffice = r.Postoffice
	name, err := router.Give(file)
	if name == "" {
		_ = postoffice.RemovePath(file)
		return "", err
	}
	return "router/" + name, err
}

// store keeps a notice that nobody gets in postman/, under the name that
// ZMailer's scheduler gives it.
func (r *Reporter) store(c *Composed, temp string) (string, error) {
	s := &ctlfile.Submission{
		By: r.By, From: ctlfile.Address{Channel: "error"}, Header: c.Header,
		To: []*ctlfile.Recipient{{Address: ctlfile.Address{User: "postmaster"}, DSN: "NOTIFY=NEVER"}},
	}
	file, err := r.write(s, c, temp)
	if err != nil {
		return "", err
	}
	info, err := postoffice.Lstat(file)
	if err != nil {
		return "", err
	}
	name := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10) + ":error-on-error"
	postman := filepath.Join(r.Postoffice, "postman")
	if err := postoffice.Publish(file, filepath.Join(postman, name)); err != nil {
		_ = postoffice.RemovePath(file)
		return "", err
	}
	return "postman/" + name, syncdir.Sync(postman)
}

// write writes a submission under a temporary name and returns the name.
func (r *Reporter) write(s *ctlfile.Submission, c *Composed, temp string) (string, error) {
	f, err := postoffice.CreateTemp(r.Postoffice, temp)
	if err != nil {
		return "", err
	}
	err = s.Encode(f, bytes.NewReader(c.Body))
	if err == nil && !r.Async {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = postoffice.RemovePath(f.Name())
		return "", err
	}
	return f.Name(), nil
}
