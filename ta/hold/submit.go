package hold

import (
	"fmt"
	"os"

	"zsched/ctlfile"
	"zsched/ta"
)

// again submits recipients of a message to the router again and reports each.
// One submission cannot have two senders, so there may be several.
func (a *Agent) again(m *ta.Message, ready []*ta.Recipient) {
	var chosen []int
	byOffset := map[int64]*ta.Recipient{}
	for _, r := range ready {
		if !ctlfile.PlainAddress(r.User) {
			r.Report(waiting(fmt.Errorf("%.200q: %w", r.User, ctlfile.ErrNotPlain)))
			continue
		}
		chosen = append(chosen, m.File.Find(r.Offset))
		byOffset[r.Offset] = r
	}
	for _, s := range m.File.Resubmissions(chosen) {
		name, err := a.submit(m, s)
		for _, to := range s.To {
			r := byOffset[to.Offset]
			if err != nil {
				r.Report(waiting(err))
				continue
			}
			// Not a delivery to tell of: whoever has it now will.
			r.Report(ta.Result{
				Status: ta.OK3,
				Fields: ta.Fields{Action: "relayed", Code: "2.0.0"},
				Text:   "submitted again as " + name,
			})
		}
	}
}

// submit gives one submission to the router, which may have it by the time
// that this returns; after an error it has not. Should the machine stop before
// the new name is on disk, the old recipient is still locked and tried again.
func (a *Agent) submit(m *ta.Message, s *ctlfile.Submission) (name string, err error) {
	s.By = "hold@" + a.Host
	body, err := m.Body()
	if err != nil {
		return "", fmt.Errorf("read the message: %w", err)
	}
	file, err := s.Write(a.Postoffice, "hold-*", body)
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	router := ctlfile.Router{Postoffice: a.Postoffice, Levels: a.RouterLevels, Notify: a.RouterNotify}
	name, err = router.Give(file)
	if name == "" {
		_ = os.Remove(file)
		return "", fmt.Errorf("submit: %w", err)
	}
	return name, nil
}
