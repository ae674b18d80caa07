package server

// Rights: what a user of the auth file may do.

import "strings"

// rights are what a user may do: the attributes in the third field of a line of
// the auth file (scheduler(8), "MAILQv2 AUTHENTICATION FILE").
type rights uint32

const (
	rightSNMP rights = 0x01 // SHOW SNMP
	rightQQ   rights = 0x02 // SHOW QUEUE SHORT
	rightTT   rights = 0x04 // every other SHOW, and EXPLAIN
	rightETRN rights = 0x10
	rightKILL rights = 0x20 // every verb that changes the queue
	rightsAll rights = 0x7fffffff
)

// attributes are the words of the auth file. NONE grants nothing.
var attributes = map[string]rights{
	"SNMP": rightSNMP,
	"QQ":   rightQQ,
	"TT":   rightTT,
	"ETRN": rightETRN,
	"KILL": rightKILL,
	"ALL":  rightsAll,
	"NONE": 0,
}

func (r rights) has(need rights) bool { return r&need == need }

// parseRights reads the attributes of a line: words in upper case, separated by
// single blanks. Other words are unknown and grant nothing; known is false if no word is an
// attribute.
func parseRights(field string) (r rights, known bool, unknown []string) {
	for word := range strings.SplitSeq(field, " ") {
		more, ok := attributes[word]
		r |= more
		known = known || ok
		if !ok && word != "" {
			unknown = append(unknown, word)
		}
	}
	return r, known, unknown
}
