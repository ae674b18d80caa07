// Package promise knows what the answers to orders have promised, and says which promise is
// broken. It is told when an order is given and answered, and what becomes of each recipient:
//
//	HOLD              not fed after the answer, until a RELEASE, the end of its time, or an order
//	                  that sends it elsewhere
//	KILL, EXPIRE      never fed after the answer, and not delivered, unless a later order still finds
//	                  it, because this one waits: then the later one replaces it
//	REQUEUE, REROUTE  one copy: it is delivered once
//	all others        it is delivered in the end
//
// Orders may be given at the same time. Of two whose times overlap, either may be the later one.
package promise

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"zsched/scheduler/view"
)

// Book has the recipients and the orders about them. Its methods may be called from any goroutine.
type Book struct {
	mu         sync.Mutex
	clock      int // counts beginnings and ends of orders
	recipients map[string]*recipient
	threads    map[string][]*Order // HOLD and RELEASE of threads, by host
	wrong      []string
	promises   map[view.Verb]int
}

// recipient is what became of a recipient, which its address names.
type recipient struct {
	orders    []*Order
	delivered int
	mayDouble bool // the scheduler was killed while it was open
	isTwice   bool // it was killed between the two steps of a REQUEUE, so an order is about one of two copies
}

// Order is an order that was given.
type Order struct {
	Verb      view.Verb
	Addresses []string // the recipients that it is about
	Thread    string   // or the host of the thread that it holds or releases
	For       time.Duration

	begun, answered int // by Book.clock; 0: not yet
	until           time.Time
	binding         bool // the answer promised it
	hasEffect       bool // it found recipients, or may have
	lost            bool // the scheduler was killed before it was carried out
}

// New makes a book without recipients.
func New() *Book {
	return &Book{recipients: map[string]*recipient{}, threads: map[string][]*Order{}, promises: map[view.Verb]int{}}
}

// Add adds a recipient that is accepted.
func (b *Book) Add(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recipients[address] = &recipient{}
}

// Knows reports whether a recipient was added.
func (b *Book) Knows(address string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recipients[address] != nil
}

// Give notes an order just before it is given. The caller must not change it later.
func (b *Book) Give(o *Order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	o.begun = b.clock
	if o.For > 0 {
		o.until = time.Now().Add(o.For)
	}
	if o.Thread != "" {
		b.threads[o.Thread] = append(b.threads[o.Thread], o)
	}
	for _, address := range o.Addresses {
		if r := b.recipients[address]; r != nil {
			r.orders = append(r.orders, o)
		}
	}
}

// Answer notes the answer to an order. It promises something if it says that the order is about
// all of its recipients.
func (b *Book) Answer(o *Order, did view.Outcome, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	o.answered = b.clock
	o.hasEffect = err != nil || did.Recipients > 0
	o.binding = err == nil && did.Refused == 0 && (o.Thread != "" || did.Recipients == len(o.Addresses))
	if o.binding {
		b.promises[o.Verb]++
	}
}

// The verbs of orders that end what another has promised: a hold, or an end.
var (
	endsHold    = []view.Verb{view.VerbRelease, view.VerbRequeue, view.VerbReroute}
	replacesEnd = []view.Verb{view.VerbHold, view.VerbRequeue, view.VerbReroute, view.VerbKill, view.VerbExpire}
)

// isOver reports whether one of the orders may have come after o and ends what o has promised.
func isOver(o *Order, orders []*Order, ends func(*Order) bool) bool {
	return slices.ContainsFunc(orders, func(x *Order) bool {
		return x != o && (x.answered == 0 || x.answered > o.begun) && ends(x)
	})
}

// isHeld reports whether o is a hold that is in force. A later one for a time replaces one without.
func isHeld(o *Order, orders []*Order) bool {
	return o.Verb == view.VerbHold && o.binding && (o.For == 0 || time.Now().Before(o.until)) && !isOver(o, orders, func(x *Order) bool {
		return slices.Contains(endsHold, x.Verb) || x.Verb == view.VerbHold && x.For > 0
	})
}

func isReplacing(x *Order) bool {
	return slices.Contains(replacesEnd, x.Verb) && (x.answered == 0 || x.hasEffect)
}

// isEnded returns the order that has ended a recipient; nil: none has.
func (r *recipient) isEnded() *Order {
	for _, o := range r.orders {
		ends := o.Verb == view.VerbKill || o.Verb == view.VerbExpire
		if ends && o.binding && !o.lost && !isOver(o, r.orders, isReplacing) {
			return o
		}
	}
	return nil
}

// Feed notes that an agent is given a recipient, in the thread of a host.
func (b *Book) Feed(address, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.threads[host] {
		if isHeld(o, b.threads[host]) {
			b.fault("%s is fed while thread %s is held", address, host)
		}
	}
	r := b.recipients[address]
	if r == nil || r.isTwice {
		return
	}
	for _, o := range r.orders {
		if isHeld(o, r.orders) {
			b.fault("%s is fed while its message is held", address)
		}
	}
	if o := r.isEnded(); o != nil {
		b.fault("%s is fed after %s was answered", address, o.Verb)
	}
}

// Open notes, while nothing is under way, that a recipient is open in the queue, and in how many
// control files.
func (b *Book) Open(address string, files int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.recipients[address]
	if r == nil || r.isTwice {
		return
	}
	if o := r.isEnded(); o != nil {
		b.fault("%s is still in the queue after %s was answered", address, o.Verb)
	}
	if files > 1 && !r.mayDouble {
		b.fault("%s is in %d control files", address, files)
	}
}

// Deliver notes a delivery.
func (b *Book) Deliver(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.recipients[address]
	if r == nil {
		return
	}
	if r.delivered++; r.delivered > 1 && !r.mayDouble {
		b.fault("%s is delivered %d times", address, r.delivered)
	}
}

// Kill notes that the scheduler was killed, and in how many files each recipient is open then.
// Orders about those that are open are lost, except holds, which are on disk before their answers. An
// agent may have delivered them.
func (b *Book) Kill(open map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, copies := range open {
		r := b.recipients[address]
		if r == nil {
			continue
		}
		r.mayDouble, r.isTwice = true, r.isTwice || copies > 1
		if r.delivered > 0 {
			r.orders = nil // its mark is lost, and the orders that came after the mark were not about it
		}
		for _, o := range r.orders {
			o.lost = o.lost || o.Verb != view.VerbHold
		}
	}
}

// Unfinished returns the recipients that have no end yet.
func (b *Book) Unfinished() (addresses []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, r := range b.recipients {
		ended := slices.ContainsFunc(r.orders, func(o *Order) bool { return o.Verb == view.VerbKill || o.Verb == view.VerbExpire })
		if r.delivered == 0 && !ended {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// Wrong returns the promises that were broken.
func (b *Book) Wrong() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.wrong)
}

// Promises returns how many answers have promised something, by verb.
func (b *Book) Promises() map[view.Verb]int { return b.promises }

func (b *Book) fault(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}
