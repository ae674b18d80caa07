package spool

// What version 0.9 has left beside its records: hold/threads, the list of held and suspended
// threads, and hold/suspensions, a second list of the latter.
//
//	smtp<TAB>example.org
//	smtp<TAB>example.com<TAB>suspended<TAB>SINCE<TAB>UNTIL<TAB>BY<TAB>WHY
//	# end
//
// SINCE and UNTIL are times as in RFC 3339, and "-" if there is none.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/scheduler/view"
)

// recordLists writes a record for each thread of the lists that no record names, so that it is
// held, and then gives the lists the names *.0.9. damage says that a list is not whole.
func (h *Holds) recordLists() (damage, err error) {
	for _, name := range []string{"hold/threads", "hold/suspensions"} {
		text, err := postoffice.ReadFile(h.places.office, name, math.MaxInt64)
		if err == unix.ENOENT {
			continue
		}
		if err == nil {
			err = h.changeHolds(func() error { return h.recordList(string(text)) })
		}
		if err == nil {
			err = postoffice.Replace(h.places.office, name, h.places.office, name+".0.9")
		}
		if err != nil {
			return nil, fmt.Errorf("converting %s: %w", name, err)
		}
		if !strings.HasSuffix(string(text), "# end\n") || strings.Contains(string(text), "\x00") {
			damage = errors.Join(damage, errors.New(name+".0.9"))
		}
	}
	return damage, nil
}

// recordList writes a record for each thread of a list that no record names.
func (h *Holds) recordList(text string) error {
	records, err := h.readRecords()
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		t, rest, ok := parseThread(line)
		isNamed := func(r HoldRecord) bool { return slices.Contains(r.Threads, t) }
		if !ok || strings.HasPrefix(line, "#") || slices.ContainsFunc(records, isNamed) {
			continue
		}
		r := HoldRecord{Threads: []view.Name{t}}
		if fields := strings.Split(rest, "\t"); len(fields) == 5 {
			r.Since, _ = time.Parse(time.RFC3339, fields[1])
			r.Until, _ = time.Parse(time.RFC3339, fields[2])
			r.By, r.Because = fields[3], fields[4]
		}
		if err := h.writeRecord(&r); err != nil {
			return err
		}
		records = append(records, r)
	}
	return nil
}
