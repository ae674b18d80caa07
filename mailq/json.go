package mailq

// CounterItem is a counter of JSON SHOW COUNTERS.
type CounterItem struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// ThreadItem is a thread of JSON SHOW QUEUE THREADS.
type ThreadItem struct {
	Ring uint64 `json:"ring"` // Ring.ID
	Thread
}

// ReasonItem is a diagnostic of JSON SHOW REASONS, and how many have it.
type ReasonItem struct {
	// Reason is the last line of the diagnostic, without what differs from
	// one attempt to the next: see SHOW REASONS in mailq(1).
	Reason     string `json:"reason"`
	Recipients int    `json:"recipients"`
	Jobs       int    `json:"jobs"`
	Example    string `json:"example"` // one whole diagnostic; \r between lines
	// Destination is where the example is from.
	Destination Name `json:"destination"`
	// Others: this line counts the reasons beyond those that are listed.
	Others bool `json:"others,omitempty"`
}

// ShapeBounds are the upper bounds of the columns of SHOW SHAPE in minutes;
// a last column has what is older.
var ShapeBounds = [...]int{5, 10, 20, 40, 80, 160, 320, 640, 1280}

// ShapeItem is a destination of JSON SHOW SHAPE: its recipients by the age of
// their message.
type ShapeItem struct {
	Name
	All    bool `json:"all,omitempty"`    // the first line: all of them
	Others bool `json:"others,omitempty"` // the last: destinations not listed
	Total  int  `json:"total"`
	// Ages counts up to ShapeBounds, then those older than all.
	Ages [len(ShapeBounds) + 1]int `json:"ages"`
}

// Trouble is the last object of a list that is not whole.
type Trouble struct {
	Error string `json:"error"`
}
