package mailq

import "strings"

// Location says which postoffice a server has. It stands at the end of the second line of its
// greeting, for peers on the same machine:
//
//	220 MAILQ-V2-CHALLENGE: 1795234572.265840.1 POSTOFFICE 2049:131073 /var/spool/postoffice
//
// The whole line is the challenge of AUTH. Clients that do not know it take it as it is.
type Location struct {
	Postoffice string // an absolute path; "": not known
	// Identity is the same for two paths of one directory; "-": not known.
	Identity string
}

// locationWord begins a Location.
const locationWord = "POSTOFFICE"

func (l Location) String() string {
	return locationWord + " " + l.Identity + " " + Quote(l.Postoffice)
}

// ParseLocation reads the location in the second line of a greeting. The zero value means
// that it has none.
func ParseLocation(challenge string) (l Location) {
	_, text, found := strings.Cut(challenge, " "+locationWord+" ")
	if !found {
		return l
	}
	identity, rest := CutRaw(text)
	postoffice, _, ok, err := CutWord(rest)
	if err != nil || !ok {
		return l
	}
	return Location{Postoffice: postoffice, Identity: identity}
}

// IsOther reports whether two known locations are certainly different directories. If their
// paths are equal they are not, although the directory may have been replaced; nor if one
// directory has two paths, because of a symbolic link or in a container.
func (l Location) IsOther(than Location) bool {
	if l.Postoffice == "" || than.Postoffice == "" || l.Postoffice == than.Postoffice {
		return false
	}
	return l.Identity != than.Identity && l.Identity != "-" && than.Identity != "-"
}
