// Package limit has the one kind of limit. Everything that bounds how much runs at a
// time, or how often something begins, is a Limit: the window of a thread, a server
// behind many destinations, a ring, a channel, all processes.
//
// Who uses a limit sees it through a Link. The limit counts what is busy; the link has what
// applies to this user, because users of one limit may have different parameters: how many
// may be busy at most, this node's share of a limit of several nodes, and the tokens of a
// rate.
//
//	       Link: Most, Share, Tokens        Limit: Busy, who waits
//	user ─────────────────────────────────► server
//	     ─────────────────────────────────► ring
//	     ─────────────────────────────────► channel
//
// To begin something, all links of a user are asked in order. At the first limit
// that refuses, the user waits. When the limit is free again, it wakes as many as it has
// places for, those first that have waited longest. A user that was woken and is refused
// elsewhere keeps its turn for the next time, and the limit, which is asked again whenever
// somebody was refused, wakes the next one. So no free place has somebody who waits.
//
// A Bucket counts the tokens of a rate. A Window is a Most that moves by itself.
//
// Nothing here reads a clock or knows what is being limited.
package limit

import "time"

// Unlimited is more than any count.
const Unlimited = 1 << 30

// Never is later than every time.
const Never time.Duration = 1<<63 - 1

// Limit is one limit. K says what bounds those who wait at it.
type Limit[K comparable] struct {
	Busy int // what has begun and has not ended
	Queue[K]
}

// Link is what a limit allows one of its users now.
type Link struct {
	Busy   int // of the limit
	Most   int // may be busy; 0: no bound
	Share  int // of this node may be busy; Unlimited: no bound
	Tokens int // of a rate; Unlimited, or more: no bound
}

// Open returns a link without bounds.
func Open() Link { return Link{Share: Unlimited, Tokens: Unlimited} }

// Room is how many more may be busy. It is negative if more are busy than allowed.
func (l Link) Room() int {
	room := Unlimited
	if l.Share < Unlimited {
		room = l.Share - l.Busy
	}
	if l.Most > 0 {
		room = min(room, l.Most-l.Busy)
	}
	return room
}

// Free is how many more may begin now.
func (l Link) Free() int { return min(l.Room(), l.Tokens) }

// Refusal is why a link refuses something.
type Refusal uint8

const (
	None    Refusal = iota // it does not
	NoToken                // the rate has none
	Full                   // as many are busy as may be
	NoShare                // as many as this node may have
)

// Refusal returns why the link refuses n more. With n = 0, that is asked for one that is busy
// already and is given more to do.
func (l Link) Refusal(n int) Refusal {
	switch {
	case l.Tokens <= 0:
		return NoToken
	case l.Most > 0 && l.Most-l.Busy < n:
		return Full
	case l.Share < Unlimited && l.Share-l.Busy < n:
		return NoShare
	}
	return None
}
