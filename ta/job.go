package ta

// Job is one job line: work for one agent on one message.
type Job struct {
	Path string // control file below transport/: hash prefix and name
	Host string // the thread's host, lower case
	// WithHost says that the command line already named the host ($host), so
	// that the line is the path alone.
	WithHost bool
}
