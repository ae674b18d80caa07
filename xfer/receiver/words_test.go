package receiver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/internal/holdrecord"
)

func TestWordsOfAnotherNodeAreBounded(t *testing.T) {
	n := newTarget(t, Options{})
	p := n.connect("n2")
	long := strings.Repeat("x", maxWord)
	plain := control("", "bob@x.example", "n2/S1A/42")
	for name, of := range map[string][2]string{
		"l":    {"l <m@x>\n", "l " + long + "%s\n"},
		"e":    {"e err@x.example\n", "e " + long + "%s\n"},
		"s":    {"a@x.example", long + "%s"},
		"user": {"bob@x.example", long + "%s"},
		"R":    {"R HDRS", "R " + long + "%s"},
		"n":    {"n env", "n " + long + "%s"},
		"N":    {"N NOTIFY=FAILURE", "N " + strings.Repeat("x", maxDSN) + "%s"},
		"D":    {"m\n", "D 1\t" + strings.Repeat("x", maxDSN-4) + "\t%s\nm\n"},
	} {
		for more, want := range map[string]string{"": "250 1 ok", "y": "550 1 the message cannot be taken as it is"} {
			text := strings.Replace(plain, of[0], fmt.Sprintf(of[1], more), 1)
			if name == "D" && more == "" {
				continue // a text is cut elsewhere, too
			}
			text = strings.Replace(text, "S1A/42", fmt.Sprintf("S1A/%d", 1000+len(text)), 1)
			if said := p.push(text); !strings.HasPrefix(said, want) {
				t.Errorf("%s with %d bytes more: %.200q", name, len(more), said)
			}
		}
	}
}

func TestHoldOfAnotherNodeSaysSoAndIsBounded(t *testing.T) {
	n := newTarget(t, Options{})
	hold := "H 2399-01-01T00:00:00Z 2400-01-01T00:00:00Z root\t" + strings.Repeat("ö", 1<<16) + "\nm\n"
	text := strings.Replace(control("", "bob@x.example", "n2/S1A/42"), "m\n", hold, 1)
	text = strings.Replace(text, " queue local -", " held local -", 1)
	if said := n.connect("n2").push(text); said != "250 1 ok" {
		t.Fatalf("the reply is %.200q", said)
	}
	paths, err := filepath.Glob(filepath.Join(n.office, holdrecord.Dir, "*"))
	check(t, err)
	if len(paths) != 1 {
		t.Fatalf("the records are %q", paths)
	}
	record, err := os.ReadFile(paths[0])
	check(t, err)
	r := holdrecord.Parse(1, string(record))
	now := time.Now()
	if r.By != "root (from node n2)" || r.Since.After(now) || r.Until.After(now.Add(maxHold)) || r.Until.Before(now.Add(maxHold-time.Hour)) ||
		r.Why != strings.Repeat("ö", maxReason/2) {
		t.Errorf("the record is %.300q", record)
	}
	if resumed := boundHold(r.Line(), "", now); resumed != r.Line() {
		t.Errorf("a start makes it %q", resumed)
	}
	held := n.queued("hold/transport")
	if len(held) != 1 {
		t.Fatalf("held: %q", held)
	}
	if info, err := os.Stat(held[0]); err != nil || info.Size() > 4<<10 {
		t.Errorf("its control file: %v, %v", info, err)
	}
}
