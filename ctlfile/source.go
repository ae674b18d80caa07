package ctlfile

// Sources: where the submission of a message came from.

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Source is an S line. The words that are not known are left out:
//
//	S SOURCE=192.0.2.0/24 CLIENT=192.0.2.7 SMTPUTF8
//
// The envelope of a submission has the same words after the keyword identinfo.
type Source struct {
	// Name is whose turn the message takes (share=source). No sender can choose it: see
	// LoginSource, ClientSource and UserSource. It is in lower case. "": it is not known.
	Name   string
	Client string // IP address of the client, "" if unknown
	UTF8   bool   // the client gave SMTPUTF8 (RFC 6531)
}

// LoginSource is the name of the source of a client that has authenticated.
func LoginSource(login string) string { return "login:" + EncodeXtext(login) }

// ClientSource is that of a client at an address: its network of 24 bits, or of 48 bits for
// IPv6, because one client may have all of the addresses.
func ClientSource(client netip.Addr) string {
	bits := 48
	if client.Is4() {
		bits = 24
	}
	network, _ := client.Prefix(bits)
	return network.String()
}

// UserSource is that of a user of this machine.
func UserSource(uid int) string { return "uid:" + strconv.Itoa(uid) }

// ParseSource reads the value of an S line. Words that it does not know are ignored.
func ParseSource(value string) (s Source) {
	s.Name, _ = DSNWord(value, "SOURCE")
	s.Name = lower(s.Name)
	s.Client, _ = DSNWord(value, "CLIENT")
	s.UTF8 = slices.Contains(strings.Fields(value), "SMTPUTF8")
	return s
}

// String returns the value of the S line; "": there is nothing to say.
func (s Source) String() string {
	var words []string
	if s.Name != "" {
		words = append(words, "SOURCE="+s.Name)
	}
	if s.Client != "" {
		words = append(words, "CLIENT="+s.Client)
	}
	if s.UTF8 {
		words = append(words, "SMTPUTF8")
	}
	return strings.Join(words, " ")
}
