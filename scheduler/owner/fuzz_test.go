package owner

import (
	"reflect"
	"testing"
)

// FuzzOwner: what is accepted as the owner of a postoffice is written and read alike.
func FuzzOwner(f *testing.F) {
	r := Record{Epoch: 7, Held: true, Node: "a \"b\"", Host: "h.example", Machine: "m", PID: 5}
	f.Add(r.String())
	f.Add("epoch 1 taken node \"\" host \"\" machine x pid -1 since 2026-11-22T08:00:00+01:00")
	f.Add("\x00\x00 \n")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := parseOwner(text)
		if err != nil || first == (Record{}) {
			return // an empty file is nobody's, and nobody writes that
		}
		printed, err := first.encode()
		if err != nil {
			return // its names are too long to be written
		}
		again, err := parseOwner(string(printed))
		first.Since = first.Since.UTC()
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("%q is read as %v, written, and read as %v, %v", text, &first, &again, err)
		}
	})
}
