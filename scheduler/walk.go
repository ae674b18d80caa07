package scheduler

// Depth is how far down a Walk goes.
type Depth uint8

const (
	Rings    Depth = iota + 1
	Threads        // with their rings
	Vertices       // with their threads and rings
)

// Item is one thing that a Walk comes by: one of the three is set.
type Item struct {
	Ring   *RingView
	Thread *ThreadView
	Vertex *VertexView
}

// Walk goes over the queue in slices, so that the queue can go on in between:
// rings in the order of making, under each its threads in the order of joining
// it (which is that of making, unless a reload has moved some), under each its
// vertices in the order of linking. What is there from the first slice to the
// last comes by exactly once; what comes or goes meanwhile may or may not.
//
// The scheduler keeps an open walk until it has come to its end. One that is
// given up before must be closed.
type Walk struct {
}

// Walk begins a walk over everything.
func (s *Scheduler) Walk(depth Depth) *Walk { panic("not yet") }

// WalkThread begins a walk over the vertices of one thread.
func (s *Scheduler) WalkThread(channel, host string) *Walk { panic("not yet") }

// WalkMessage begins a walk over the vertices of one message.
func (s *Scheduler) WalkMessage(id MessageID) *Walk { panic("not yet") }

// Next returns what comes next, at most n items and at most so much that it
// can be shown between two events. It reports whether there may be more; when
// not, the walk is closed.
func (w *Walk) Next(n int) (items []Item, more bool) { panic("not yet") }

// Close gives up a walk. Closing it twice does nothing.
func (w *Walk) Close() { panic("not yet") }

// Thread returns a thread and its ring, nil where there is no mail.
func (s *Scheduler) Thread(channel, host string) (*ThreadView, *RingView) { panic("not yet") }

// Message returns a message, nil if it is not in the queue.
func (s *Scheduler) Message(id MessageID) *MessageView { panic("not yet") }

// ByLogID returns at most so many of the messages with that log identity, the
// latest first. Only a hash of it is kept: the control files decide.
func (s *Scheduler) ByLogID(logID string, most int) []MessageID { panic("not yet") }

// HasMail reports whether there is mail for a host on any channel, which is
// what a Triggered would start.
func (s *Scheduler) HasMail(host string) bool { panic("not yet") }

// Channels returns all channels that mail was for, in the order of their
// coming up.
func (s *Scheduler) Channels() []ChannelView { panic("not yet") }
