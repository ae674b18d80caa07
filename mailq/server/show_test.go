package server

import (
	"strings"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/scheduler/view"
)

func TestColumnsOfThreads(t *testing.T) {
	for host, want := range map[string]string{
		"": "\t\t\t\t", "abcd": "\t\t\t", "abcde": "\t\t", "one.example": "\t\t", "other.example": "\t",
		"abcdefghijklmnopqrs": "\t", "abcdefghijklmnopqrst": "\t", "abcdefghijklmnopqrstu": " ",
		"a-very-long-host-name-indeed.sub.example.com": " ",
	} {
		r := &report{now: time.Now(), out: new(answer)}
		line := r.threadLine(&mailq.Thread{Name: mailq.Name{Channel: "smtp", Host: host}})
		if host == "" {
			line = r.threadLine(new(mailq.Thread))
		}
		_, rest, _ := strings.Cut(line, "/0")
		if gap, _, _ := strings.Cut(rest, "N="); gap != want {
			t.Errorf("%q: gap %q, want %q", line, gap, want)
		}
	}
}

func TestWaits(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		thread     mailq.Thread
		full, tabs string
	}{
		{mailq.Thread{Wait: view.WaitChannel}, " pend=>MaxChannel QA=0s channelwait", "\tpend=>MaxChannel\tQA=0s"},
		{mailq.Thread{Wait: view.WaitRing}, " pend=>MaxRing QA=0s threadwait", "\tpend=>MaxRing\tQA=0s"},
		{mailq.Thread{Wait: view.WaitCommand}, " pend=ConfBUG:NoCmdDefined! QA=0s", "\tpend=ConfBUG:NoCmdDefined!\tQA=0s"},
		{mailq.Thread{Wait: view.WaitRing, WakeAt: now.Add(time.Minute)}, " W=60s QA=0s", "\tW=60s\tQA=0s"},
		{mailq.Thread{Wait: view.WaitHeld, Held: true, WakeAt: now.Add(time.Minute)}, " pend=Held QA=0s", "\tpend=Held\tQA=0s"},
		{mailq.Thread{WakeAt: now.Add(999 * time.Millisecond)}, " QA=0s", "\tQA=0s"},
		{mailq.Thread{Wait: view.WaitRing, Agents: []view.Agent{{PID: 5, State: "IDLE"}}, States: map[string]int{"due": 3}},
			" P={5} HA={0}s FA={never}s OF={0} S={IDLE} UF=3 QA=0s", "\tP={5}\tHA={0}s\tFA={never}s\tOF={0}\tS={IDLE}\tUF=3\tQA=0s"},
	} {
		tt.thread.OldestAt = now
		if got := threadDetail(&tt.thread, now, " "); got != "N=0   R=0   A=0 "+tt.full {
			t.Errorf("%q, want %q", got, tt.full)
		}
		if got := threadDetail(&tt.thread, now, "\t"); got != "N=0\tR=0\tA=0"+tt.tabs {
			t.Errorf("%q, want %q", got, tt.tabs)
		}
	}
	rcpt := mailq.JobLine{Recipients: []mailq.Recipient{{}}}
	for wait, want := range map[view.Wait]string{view.WaitTA: "", view.WaitThread: "", view.WaitChannel: "channel", view.WaitRing: "thread", view.NoWait: "thread", view.WaitHeld: "thread"} {
		rcpt.Wait = wait
		if got := strings.Split(recipientLine(&rcpt, 0, now), "\t"); len(got) != 10 || got[8] != want {
			t.Errorf("%s: %q", wait, got)
		}
	}
}
