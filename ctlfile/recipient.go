package ctlfile

// PID is the process that holds the recipient's lock; 0 when the field is
// blank, zero, unreadable or not there. MaxPID stands for every greater pid.
func (r *Recipient) PID() int { return 0 }

// RouteChannel is the channel as the scheduler groups by it: in lower case.
func (q Quad) RouteChannel() string { return "" }

// RouteHost is the host as the scheduler groups by it: in lower case, and of
// a list ((mx1)(mx2 mx3)) the first name.
func (q Quad) RouteHost() string { return "" }

// Find returns the index of the recipient at an offset, or -1.
func (f *File) Find(offset int64) int { return -1 }

// Open reports whether recipient i is to be worked on now: it is open, and as
// one of several alternatives (X) every earlier one has failed and no other
// is delivered or locked.
func (f *File) Open(i int) bool { return false }

// Done reports whether nothing is left to do for recipient i: it is delivered
// or failed, or another alternative of its class is delivered.
func (f *File) Done(i int) bool { return false }

// Headers is the text of recipient i's header block, "" without one.
func (f *File) Headers(i int) string { return "" }

// TriggerHost is the host that a T line's value names, in lower case.
func TriggerHost(value string) string { return "" }
