package ctlfile

// ParseNotify reads the NOTIFY= word of an N line; FAILURE when there is none.
func ParseNotify(dsn string) Notify { return NotifyFailure }

// Wants reports whether an outcome is to be told to the sender.
func (n Notify) Wants(outcome Notify) bool { return false }

func (n Notify) String() string { return "" }

// DSNWord returns the value of a KEY=value word of an N line.
func DSNWord(dsn, key string) (value string, ok bool) { return "", false }

// DSNAddress splits an ORCPT or INRCPT value, type;xtext, and decodes it.
func DSNAddress(value string) (kind, address string) { return "", "" }

// DecodeXtext decodes xtext (RFC 3461 section 4).
func DecodeXtext(s string) string { return "" }

// EncodeXtext encodes xtext (RFC 3461 section 4).
func EncodeXtext(s string) string { return "" }
