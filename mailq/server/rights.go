package server

import "strings"

// Rights are what a user may do (scheduler(8), "MAILQv2 AUTHENTICATION FILE").
type Rights uint32

const (
	RightSNMP Rights = 0x01 // SHOW SNMP
	RightQQ   Rights = 0x02 // SHOW QUEUE SHORT
	RightTT   Rights = 0x04 // all other SHOW, EXPLAIN and FIND
	RightETRN Rights = 0x10
	RightKILL Rights = 0x20 // every verb that changes the queue
	RightsAll Rights = 0x7fffffff
)

// attribute is what a word of the auth file's third field grants. NONE is
// known and grants nothing; words of other programs are not known.
func attribute(word string) (r Rights, known bool) {
	switch word {
	case "SNMP":
		return RightSNMP, true
	case "QQ":
		return RightQQ, true
	case "TT":
		return RightTT, true
	case "ETRN":
		return RightETRN, true
	case "KILL":
		return RightKILL, true
	case "ALL":
		return RightsAll, true
	case "NONE":
		return 0, true
	}
	return 0, false
}

func (r Rights) has(need Rights) bool { return r&need == need }

// parseRights reads the attributes of a line: words between single blanks, as
// they are written, unknown ones ignored.
func parseRights(field string) (r Rights, known bool) {
	for word := range strings.SplitSeq(field, " ") {
		more, k := attribute(word)
		r |= more
		known = known || k
	}
	return r, known
}
