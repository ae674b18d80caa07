package view

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

// TestEachCountOfAnOutcome comes back from JSON, is added, and has a sentence of its own.
func TestEachCountOfAnOutcome(t *testing.T) {
	full := Outcome{Messages: 3, Recipients: 5, Threads: 2, Loading: true}
	for i, c := range counts {
		*c.of(&full) = i + 1
	}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var read Outcome
	if err := json.Unmarshal(text, &read); err != nil || read != full {
		t.Errorf("%s: %+v, %v", text, read, err)
	}
	var sum Outcome
	sum.Add(full)
	sum.Add(full)
	for i, c := range counts {
		if got := *c.of(&sum); got != 2*i+2 {
			t.Errorf("count %d: %d", i, got)
		}
	}
	if sum.Recipients != 10 || !sum.Loading {
		t.Errorf("%+v", sum)
	}
	sentences := full.Sentences(VerbHold)
	slices.Sort(sentences)
	if len(slices.Compact(sentences)) != len(counts)+2 {
		t.Errorf("%q", sentences)
	}
	// Every field but the three numbers and Loading is a count.
	if fields := reflect.TypeFor[Outcome]().NumField(); fields != len(counts)+4 {
		t.Errorf("%d fields, %d counts", fields, len(counts))
	}
}
