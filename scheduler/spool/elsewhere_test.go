package spool

import (
	"errors"
	"strings"
	"testing"

	"zsched/ctlfile"
)

// TestRecipientsThatAnotherNodeHasStay: whatever order sends recipients elsewhere that were
// on their way to another node, that node is asked once for all of them, and those that it
// has are not sent.
func TestRecipientsThatAnotherNodeHasStay(t *testing.T) {
	for what, to := range map[string]Resubmission{
		"back":            {Channel: "xfer", Host: "mx1"},
		"to another node": {Channel: "xfer", Host: "mx3"},
		"reroute":         {Channel: "smtp", Host: "relay.example"},
		"requeue":         {},
	} {
		for _, c := range []struct {
			has  string // recipients that mx2 has
			tags string // of the copy, at the end
			err  string
		}{
			{"", "++++", ""},
			{"bob@b.example", " +++", "node mx2 has taken recipients of this message already"},
			{"bob@b.example carol@c.example", "   +", "node mx2 has taken"}, // cate is an alternative of carol
			{"bob@b.example carol@c.example cate@c.example dora@d.example", "    ", "node mx2 has taken"},
			{"?", "    ", "asking node mx2 which of the recipients it has, before they are sent elsewhere: no route to it"},
		} {
			o := newRoutedSpool(t)
			text := control("7", toBob, "X           3 smtp c.example carol@c.example 65534", "X           3 smtp ((mx1.c)(mx2.c)) cate@c.example 65534",
				"r           smtp d.example dora@d.example 65534")
			o.put("7", text)
			questions, users := 0, map[string]string{} // by ID of the origin
			o.open(Options{Node: "MX1", Taken: func(node string, origins []ctlfile.Origin) (map[string]bool, error) {
				questions++
				if node != "mx2" || len(origins) != 4 {
					t.Errorf("%s: node %s is asked for %v", what, node, origins)
				}
				if c.has == "?" {
					return nil, errors.New("no route to it")
				}
				taken := map[string]bool{}
				for _, from := range origins {
					taken[from.ID()] = strings.Contains(c.has, users[from.ID()])
				}
				return taken, nil
			}})
			away := o.resubmitted(Resubmission{Path: "7", Channel: "xfer", Host: "mx2"})
			for _, r := range o.movedTo(away).Recipients {
				from, err := ctlfile.ParseOrigin(r.Origin)
				check(t, err)
				users[from.ID()] = r.User
			}
			to.Path = away.Name.Path
			o.s.Resubmit(9, to)
			got := answer[Resubmitted](o)
			if c.err == "" && got.Err != nil || c.err != "" && (got.Err == nil || !strings.Contains(got.Err.Error(), c.err)) {
				t.Errorf("%s, mx2 has %q: %v", what, c.has, got.Err)
			}
			if tags := o.tagsIn("transport/" + away.Name.Path); tags != c.tags {
				t.Errorf("%s, mx2 has %q: the tags are %q, not %q", what, c.has, tags, c.tags)
			}
			if questions != 1 {
				t.Errorf("%s: %d questions", what, questions)
			}
			o.close()
		}
	}
}

// TestManyMovesBackAskOnce: the node is asked once for a batch.
func TestManyMovesBackAskOnce(t *testing.T) {
	o := newRoutedSpool(t)
	const messages = 20
	questions, recipients := 0, 0
	o.open(Options{Node: "mx1", Taken: func(_ string, origins []ctlfile.Origin) (map[string]bool, error) {
		questions++
		recipients += len(origins)
		return nil, nil
	}})
	var paths []string
	for i := range messages {
		name := string(rune('1'+i/10)) + string(rune('0'+i%10))
		o.put(name, control(name, toBob))
		paths = append(paths, o.resubmitted(Resubmission{Path: name, Channel: "xfer", Host: "mx2"}).Name.Path)
	}
	batch := make([]*move, messages)
	for i, path := range paths {
		batch[i] = &move{resubmission: &Resubmission{Path: path, Channel: "xfer", Host: "mx1", back: true}, answer: Resubmitted{Op: uint64(i)}}
	}
	o.s.moveBatch(batch)
	for range messages {
		check(t, answer[Resubmitted](o).Err)
	}
	if questions != 1 || recipients != messages {
		t.Errorf("%d questions for %d recipients", questions, recipients)
	}
}
