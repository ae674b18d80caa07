package scheduler

import "slices"

// Orders on messages on record, and x lines that obsolete these messages. RETRY
// and RELEASE change the records. For every other order, the control file is read
// first.

// recordedOrder is an order that is carried out when the message has been read.
type recordedOrder struct {
	order   Ordered
	threads []threadRef // of the vertices; nil: of all
}

// obsoletion says that a message with an x line may replace the message on
// record.
type obsoletion struct {
	by      MessageID
	logID   string
	errorTo string
	owner   uint32
}

// orderRecords applies an order to a message on record, given by its first
// record. It returns how many recipients are affected.
func (dv *delivery) orderRecords(e *Ordered, first recordRef, targets []Target) int {
	id := dv.records.items.at(first).id
	n := 0
	var touched []recordRef
	dv.records.each(first, func(ref recordRef, rec *record) {
		if dv.isTarget(e, rec, targets) && dv.affectsRecord(e, rec) {
			here := dv.recordAbout(e, rec)
			if here == 0 {
				return
			}
			n += here
			touched = append(touched, ref)
		}
	})
	if n == 0 || e.DryRun {
		return n
	}
	dv.noteTouchedMessage(e, id, dv.records.items.at(first).modifiedAt, n)
	if e.Verb == VerbRetry || e.Verb == VerbRelease {
		if x := dv.records.extras[id]; x != nil && e.Verb == VerbRelease {
			x.orders = slices.DeleteFunc(x.orders, func(o *recordedOrder) bool { return o.order.Verb == VerbHold })
		}
		for _, ref := range touched {
			if e.Verb == VerbRetry || dv.records.items.at(ref).state == poisoned {
				dv.retryRecord(ref)
			}
		}
		return n
	}
	o := &recordedOrder{order: *e}
	o.order.Targets, o.order.Only = nil, nil
	if only := e.Only[id]; only != nil {
		o.order.Only = map[MessageID][]int64{id: only}
	}
	for _, ref := range touched {
		o.threads = append(o.threads, dv.records.items.at(ref).thread)
	}
	x := dv.records.obtainExtras(id)
	x.orders = append(slices.DeleteFunc(x.orders, func(before *recordedOrder) bool { return before.withdraw(o) }), o)
	dv.readSoon(touched[0])
	return n
}

// withdraw takes the threads of a later order out of an order. It reports whether
// none is left. A hold is always of the whole message.
func (o *recordedOrder) withdraw(later *recordedOrder) bool {
	if later.order.Only != nil { // it is about a part, and is carried out afterwards
		return false
	}
	if o.order.Verb == VerbHold || later.order.Verb == VerbHold {
		return true
	}
	o.threads = slices.DeleteFunc(o.threads, func(t threadRef) bool { return slices.Contains(later.threads, t) })
	return len(o.threads) == 0
}

// recordAbout counts the recipients of a record that an order is about.
func (dv *delivery) recordAbout(e *Ordered, rec *record) int {
	only := e.Only[rec.id]
	if only == nil || !e.Verb.takesParts() {
		return dv.recordOpen(rec)
	}
	n := 0
	for i := range dv.recordLen(rec) {
		if hasOffset(only, int64(dv.recordedRecipient(rec, i).offset)) {
			n++
		}
	}
	return n
}

// isTarget reports whether an order is about a record.
func (dv *delivery) isTarget(e *Ordered, rec *record, targets []Target) bool {
	if e.Verb == VerbHold || e.Verb == VerbRelease && dv.orderOf(rec) == VerbHold {
		return true
	}
	key := dv.recordThread(rec).key
	return slices.ContainsFunc(targets, func(t Target) bool {
		return t.Channel == "" && t.Host == "" || threadKey{t.Channel, t.Host} == key
	})
}

// affectsRecord reports whether an order changes a record, as affected does for
// a vertex.
func (dv *delivery) affectsRecord(e *Ordered, rec *record) bool {
	ordered := dv.orderOf(rec)
	switch e.Verb {
	case VerbRetry:
		return ordered == 0 && rec.state != blocked
	case VerbRelease:
		return rec.state == poisoned || ordered == VerbHold
	case VerbReroute:
		if before := dv.recordedOrderOf(rec); before != nil && before.order.Verb == VerbReroute && before.order.To == e.To {
			return false
		}
		return !(e.movesAway() && ordered == VerbHold) && (e.Back || dv.recordThread(rec).key != threadKey{e.To.Channel, e.To.Host})
	}
	return true
}

// orderOf returns the verb of the order that waits until the record has been
// read; 0: none.
func (ml *mail) orderOf(rec *record) Verb {
	if o := ml.recordedOrderOf(rec); o != nil {
		return o.order.Verb
	}
	return 0
}

// recordedOrderOf returns the order that waits until the record has been read; nil: none.
func (ml *mail) recordedOrderOf(rec *record) *recordedOrder {
	x := ml.records.extras[rec.id]
	if x == nil {
		return nil
	}
	for _, o := range x.orders {
		if slices.Contains(o.threads, rec.thread) {
			return o
		}
	}
	return nil
}

// stillOrdered returns the vertices of a message that are still targets of an
// order after the message has been read again.
func (dv *delivery) stillOrdered(m *message, o *recordedOrder) []*vertex {
	return slices.DeleteFunc(dv.openVertices(m), func(v *vertex) bool {
		return o.order.Verb != VerbHold && !slices.Contains(o.threads, v.thread)
	})
}

// retryRecord makes a record due now, as retryNow does with a vertex.
func (dv *delivery) retryRecord(n recordRef) {
	rec := dv.records.items.at(n)
	t := dv.recordThread(rec)
	dv.retryThread(t)
	if rec.state != due {
		rec.undoRetryStep()
		rec.flags &^= recordCrashes
		dv.makeRecordDue(n)
		return
	}
	dv.requeueForRun(n, false)
	dv.updateThread(t)
}

// obsoleteRecords starts to read those messages on record that a new message may
// replace.
func (dv *delivery) obsoleteRecords(by *message, logID string) {
	dv.records.eachWithLog(logID, func(n recordRef) {
		x := dv.records.obtainExtras(dv.records.items.at(n).id)
		x.obsoletedBy = append(x.obsoletedBy, obsoletion{by.id, logID, dv.errorTo(by), by.owner})
		dv.readSoon(n)
	})
}

// obsoleteBy drops a message that has been read again if the other message really
// replaces it.
func (dv *delivery) obsoleteBy(m *message, by obsoletion) {
	if dv.logHashes.at(m.ref) == hashLogID(by.logID) && m.flags&obsoleted == 0 && m.owner == by.owner && dv.errorTo(m) == by.errorTo {
		dv.dropObsolete(m, by.by)
	}
}
