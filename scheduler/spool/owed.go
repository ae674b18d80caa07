package spool

import "zsched/ctlfile"

// owes reports whether the file has a d line of which the sender wants to
// hear and has not. While a set of alternatives is undecided its failures are
// nobody's business; final says that nothing is undecided any more.
func owes(f *ctlfile.File, final bool) bool {
	if f.NullSender {
		return false
	}
	for i := range f.Diagnostics {
		line := &f.Diagnostics[i]
		if line.Tag != ctlfile.Open {
			continue
		}
		n := f.Find(line.Recipient)
		if n < 0 {
			// Of whom it speaks nobody knows: the sender may.
			if ctlfile.NotifyFailure == tells(line.Notary, ctlfile.Failed) {
				return true
			}
			continue
		}
		r := &f.Recipients[n]
		if r.Notify.Wants(tells(line.Notary, r.Tag)) && (final || decided(f, r.Class)) {
			return true
		}
	}
	return false
}

// tells is the kind of news a d line is about a recipient with this tag. One
// who failed is news of failure also when the agent did not know the word for
// it: rather a notice too many than one lost.
func tells(notary string, tag ctlfile.Tag) ctlfile.Notify {
	switch action(notary) {
	case failed:
		return ctlfile.NotifyFailure
	case delayed:
		return ctlfile.NotifyDelay
	case delivered, relayed, expanded:
		return ctlfile.NotifySuccess
	}
	if tag == ctlfile.Failed {
		return ctlfile.NotifyFailure
	}
	return 0
}

// decided reports whether every recipient of an exclusive set has failed. An r
// line stands alone and always is.
func decided(f *ctlfile.File, class int) bool {
	if class == 0 {
		return true
	}
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Class == class && r.Tag != ctlfile.Failed {
			return false
		}
	}
	return true
}
