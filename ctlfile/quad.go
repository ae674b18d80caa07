package ctlfile

import "errors"

// Quad is a destination or an origin. Its words are as in the file, with
// their quotes and backslashes.
type Quad struct {
	Channel, Host, User string
	Privilege           string // a numeric uid, possibly with more behind it
}

func (q Quad) String() string { return "" }

// ParseQuad splits a quad into its words.
func ParseQuad(s string) (Quad, error) { return Quad{}, errors.ErrUnsupported }

// Quote makes one word of a quad's component.
func Quote(component string) (string, error) { return "", errors.ErrUnsupported }
