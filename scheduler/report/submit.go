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
	f, err := r.write(s, c, temp)
	if err != nil {
		return "", err
	}
	var name string
	if r.Group != nil {
		name, err = r.Group.Commit(f)
	} else if err = r.finish(f); err == nil {
		router := r.Router
		router.Postoffice = r.Postoffice
		if name, err = router.Give(f.Name()); name == "" {
			_ = postoffice.RemovePath(f.Name())
		}
	}
	if name == "" {
		return "", err
	}
	return "router/" + name, err
}

// store stores a notice without an addressee in postman/, under the name that
// ZMailer's scheduler gives it.
func (r *Reporter) store(c *Composed, temp string) (string, error) {
	s := &queue.Submission{
		By: r.By, From: ctlfile.Address{Channel: "error"}, Header: c.Header,
		To: []*ctlfile.Recipient{{Address: ctlfile.Address{User: "postmaster"}, DSN: "NOTIFY=NEVER"}},
	}
	f, err := r.write(s, c, temp)
	if err == nil {
		err = r.finish(f)
	}
	if err != nil {
		return "", err
	}
	file := f.Name()
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

// write writes a submission under a temporary name. The file is still to be
// synced and closed.
func (r *Reporter) write(s *queue.Submission, c *Composed, temp string) (*postoffice.File, error) {
	f, err := postoffice.CreateTemp(r.Postoffice, temp)
	if err != nil {
		return nil, err
	}
	if err := s.Encode(f, bytes.NewReader(c.Body)); err != nil {
		_ = f.Close()
		_ = postoffice.RemovePath(f.Name())
		return nil, err
	}
	return f, nil
}

// finish syncs a file and closes it. After an error the file is removed.
func (r *Reporter) finish(f *postoffice.File) error {
	err := f.Sync()
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = postoffice.RemovePath(f.Name())
	}
	return err
}
