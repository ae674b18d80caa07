package ctlfile

// Tag is the byte after a field's letter: its state.
type Tag byte

const (
	Open      Tag = ' ' // unprocessed or deferred
	Locked    Tag = '~' // an agent is at it; its pid follows
	Delivered Tag = '+' // of a recipient: done. Of a d line: somebody was told
	Failed    Tag = '-' // of a recipient: failed for good
)

// Notify is the set of delivery outcomes of which the sender wants to hear
// (RFC 3461 section 4.1).
type Notify uint8

const (
	NotifySuccess Notify = 1 << iota
	NotifyFailure
	NotifyDelay
	NotifyNever
	NotifyTrace
)
