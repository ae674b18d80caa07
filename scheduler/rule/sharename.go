package rule

import "strings"

// Names and weights of shares (share, PARAMshares).

// ShareName returns the name of the share for a sender, which is in lower case, and the
// source of the submission, "" if it is not known.
func ShareName(kind, sender, source string) string {
	switch kind {
	case "source":
		if source != "" {
			return source
		}
	case "sender":
		return sender
	case "none", "":
		return ""
	}
	return sender[strings.LastIndexByte(sender, '@')+1:]
}

// Weight returns the weight of a share. A sender or login without a weight has that of
// its domain.
func (c *Config) Weight(name string) int {
	if w := c.Shares[name]; w > 0 {
		return w
	}
	if w := c.Shares[name[strings.LastIndexByte(name, '@')+1:]]; w > 0 {
		return w
	}
	return 1
}
