package mailq

// The totals, and what is kept back.

import "time"

// Totals is the answer to JSON SHOW SNMP.
type Totals struct {
	Agents     int `json:"agents"`
	IdleAgents int `json:"idle_agents"`
	Messages   int `json:"messages"`
	Threads    int `json:"threads"`
	JobLines   int `json:"job_lines"`
	Recipients int `json:"recipients"`
	// States counts the job lines in each state of view.States. States without any are
	// missing.
	States    map[string]int `json:"states,omitempty"`
	StartedAt time.Time      `json:"started_at"`
	// The next four count since StartedAt.
	MessagesIn    uint64 `json:"messages_in"`
	MessagesOut   uint64 `json:"messages_out"`
	RecipientsIn  uint64 `json:"recipients_in"`
	RecipientsOut uint64 `json:"recipients_out"`
	// MessagesFound and RecipientsFound are those of the mail that came in which was there before
	// StartedAt.
	MessagesFound   uint64 `json:"messages_found,omitempty"`
	RecipientsFound uint64 `json:"recipients_found,omitempty"`
	// The kinds of KeptKinds.
	Held        Kept `json:"held"`
	HeldThreads Kept `json:"held_threads"`
	Notices     Kept `json:"notices,omitzero"`
	Quarantined Kept `json:"quarantined"`
	Unloaded    Kept `json:"unloaded,omitzero"`
	// Router is the mail that waits in router/ for the router.
	Router Router `json:"router,omitzero"`
	// Spool is the fault that keeps the scheduler from writing control files.
	Spool Spool `json:"spool,omitzero"`
	// Loading says that the scheduler has not yet loaded all mail that was there at StartedAt, so
	// that counts and lists are not complete.
	Loading bool `json:"loading,omitempty"`
	// Stopping says that the scheduler waits for its agents and then exits.
	Stopping bool `json:"stopping,omitempty"`
	// Reload is the zero value if there was no reload since StartedAt.
	Reload Reload `json:"reload,omitzero"`
	// SMTPReload is how the last reload of the SMTP server ended, if it failed.
	SMTPReload Reload `json:"smtp_reload,omitzero"`
}

// KeptKind is a kind of what is kept back and does not merely wait for its next attempt.
type KeptKind struct {
	Name string              // in metrics and JSON
	Of   func(*Totals) *Kept // its count
	one  string              // what is counted
	many string
	what string // why it is kept back: "1 thread held"
}

// KeptKinds are all kinds, in the order of lists. Totals has a field for each. Held messages,
// job lines and the mail of threads are in the other counts of Totals too.
var KeptKinds = [...]KeptKind{
	{"held", func(t *Totals) *Kept { return &t.Held }, "message", "messages", "held"},
	{"held_threads", func(t *Totals) *Kept { return &t.HeldThreads }, "thread", "threads", "held"},
	// In postman/, because the sender is null.
	{"notices", func(t *Totals) *Kept { return &t.Notices }, "notice", "notices", "that nobody got"},
	// Under corrupt/.
	{"quarantined", func(t *Totals) *Kept { return &t.Quarantined }, "message", "messages", "quarantined"},
	// In transport/, and could not be loaded yet, for example because a live process has
	// locked them; the oldest is the one that was refused first.
	{"unloaded", func(t *Totals) *Kept { return &t.Unloaded }, "message", "messages", "not loaded"},
}

// Router counts the messages that no router has routed yet.
type Router struct {
	Count    int       `json:"count"`
	OldestAt time.Time `json:"oldest_at,omitzero"` // when the oldest was submitted
	// Dead says that a router has run in this postoffice and is not running now.
	Dead bool `json:"dead,omitempty"`
	// Reload is how the last reload of its tables ended, if it failed.
	Reload Reload `json:"reload,omitzero"`
}

// Reload is how the last reload of a program ended.
type Reload struct {
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"` // the first one; "": the new configuration is in force
}

// Spool is a fault of the disk, for example that it is full.
type Spool struct {
	Reason string    `json:"error"` // of the last failure; it names the file
	Since  time.Time `json:"since"`
	Down   bool      `json:"down"`   // nothing can be written, and nothing is delivered
	Writes int       `json:"writes"` // to control files, that have failed and are tried again
}
