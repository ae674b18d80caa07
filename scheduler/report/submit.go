package report

// Submitting: how a notice gets into router/, or into postman/.

import (
	"bytes"
	"fmt"
	"os"
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
		_ = os.Remove(file)
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
	info, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	name := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10) + ":error-on-error"
	postman := filepath.Join(r.Postoffice, "postman")
	if err := os.Rename(file, filepath.Join(postman, name)); err != nil {
		_ = os.Remove(file)
		return "", err
	}
	return "postman/" + name, syncdir.Sync(postman)
}

// write writes a submission under a temporary name and returns the name.
func (r *Reporter) write(s *ctlfile.Submission, c *Composed, temp string) (string, error) {
	f, err := r.create(temp)
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
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// create makes a temporary file in queue/.tmp, where nobody else can reach a
// name. An agent that is not root cannot use that directory and takes public/.
func (r *Reporter) create(temp string) (*os.File, error) {
	f, err := r.createInTemp(temp)
	if err != nil && os.Geteuid() != 0 {
		return os.CreateTemp(filepath.Join(r.Postoffice, "public"), temp+"*")
	}
	return f, err
}

func (r *Reporter) createInTemp(temp string) (*os.File, error) {
	queue, err := os.Open(filepath.Join(r.Postoffice, "queue"))
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	fd, err := postoffice.OpenTemp(int(queue.Fd()))
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), postoffice.TempDir)
	defer dir.Close()
	f, err := os.CreateTemp(postoffice.TempPath(r.Postoffice, ""), temp+"*")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file: %w", err)
	}
	return f, nil
}
