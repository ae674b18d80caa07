package queue

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"zsched/ctlfile"
)

const full = `external
rcvdfrom client.example ([192.0.2.7])
with ESMTP
identinfo SOURCE=192.0.2.0/24 CLIENT=192.0.2.7 SMTPUTF8
bodytype 8BITMIME
envid QQ314159
notaryret HDRS
from <alice@sender.example>
todsn NOTIFY=SUCCESS ORCPT=rfc822;b@old.example X=y
to <bob@smtp.example>
to carol
env-end
`

func TestEnvelopeOfAServer(t *testing.T) {
	const message = "from: lower case\nto: x\n\nbody\n"
	for _, s := range []string{full, strings.TrimSuffix(full, "env-end\n")} {
		e, rest, err := ReadEnvelope(strings.NewReader(s + message))
		if err != nil {
			t.Fatal(err)
		}
		want := &Envelope{
			From: "<alice@sender.example>", EnvID: "QQ314159", Ret: "HDRS",
			RcvdFrom: "client.example ([192.0.2.7])", With: "ESMTP", Source: ctlfile.Source{Name: "192.0.2.0/24", Client: "192.0.2.7", UTF8: true}, Size: int64(len(s)),
			To: []EnvelopeRecipient{{"<bob@smtp.example>", "NOTIFY=SUCCESS ORCPT=rfc822;b@old.example"}, {"carol", ""}},
		}
		if !reflect.DeepEqual(e, want) {
			t.Errorf("%+v", e)
		}
		if text, _ := io.ReadAll(rest); string(text) != message {
			t.Errorf("rest %q", text)
		}
	}
}

func TestEnvelopeMayBeMissing(t *testing.T) {
	for _, message := range []string{"To: a@b\n\nx", "\nbody", "Subject: " + strings.Repeat("long ", maxEnvelopeLine) + "\n\nx"} {
		e, rest, err := ReadEnvelope(strings.NewReader(message))
		if err != nil || e.Size != 0 || len(e.To) != 0 {
			t.Fatalf("%.20q: %+v, %v", message, e, err)
		}
		if text, _ := io.ReadAll(rest); string(text) != message {
			t.Errorf("%.20q: rest %.20q", message, text)
		}
	}
}

func TestNullSender(t *testing.T) {
	for _, line := range []string{"channel error", "from <>", "from <a@b>\nchannel error"} {
		if e, _, err := ReadEnvelope(strings.NewReader(line + "\nenv-end\n\n")); err != nil || !e.Null {
			t.Errorf("%q: %+v, %v", line, e, err)
		}
	}
}

func TestWordsOfAnEnvelopeAreReadOnce(t *testing.T) {
	for line, want := range map[string]string{
		"NOTIFY NOTIFY=DELAY notify=NEVER":                "NOTIFY=DELAY",
		"by=60;R\tX=y  orcpt=rfc822;a NOTIFY=SUCCESS":     "NOTIFY=SUCCESS ORCPT=rfc822;a BY=60;R",
		"ORCPT=é ORCPT=rfc822;a INFROM= EZMLM=b INRCPT=c": "INRCPT=c EZMLM=b",
		"": "",
	} {
		e, _, err := ReadEnvelope(strings.NewReader("identinfo SOURCE=a CLIENT=b\nidentinfo SOURCE=c\ntodsn NOTIFY=TRACE\ntodsn " + line + "\nto <a@b>\nenv-end\n"))
		if err != nil || e.To[0].DSN != want || e.Source != (ctlfile.Source{Name: "c"}) {
			t.Errorf("%q: %+v, %v", line, e, err)
		}
	}
}

func TestErrorsHaveTheirPlace(t *testing.T) {
	for s, want := range map[string]string{
		"external\nfoo bar\n":            `2: unknown keyword "foo"`,
		"to <a@b>\nto\n":                 "2: the recipient is missing",
		"from\n":                         "1: the sender is missing",
		"to <a\x01b>\n":                  `1: a control character in the value of "to"`,
		"to <a\rb>\n":                    `1: a control character in the value of "to"`,
		"external\n":                     "2: the file ends within the envelope",
		"to <a@b>":                       "1: the line has no end within 16384 bytes",
		"to " + strings.Repeat("a", 1e5): "1: the line has no end within 16384 bytes",
		"":                               "1: the file ends within the envelope",
	} {
		_, _, err := ReadEnvelope(strings.NewReader(s))
		var where *EnvelopeError
		if !errors.As(err, &where) || err.Error() != want {
			t.Errorf("%.20q: %v", s, err)
		}
	}
}

func TestEnvelopeIsBounded(t *testing.T) {
	_, _, err := ReadEnvelope(strings.NewReader(strings.Repeat("to a@b\n", maxRecipients+1) + "env-end\n\n"))
	if err == nil || !strings.Contains(err.Error(), "250001: more than 250000 recipients") {
		t.Errorf("%v", err)
	}
	for lines, want := range map[string]string{
		strings.Repeat("user a\n", maxOtherLines) + "to a@b\n": "1001: there are more than 1000 lines",
		strings.Repeat("todsn NOTIFY=NEVER\nto a@b\n", 20000):  "",
	} {
		if _, _, err := ReadEnvelope(strings.NewReader(lines + "env-end\n\n")); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q…: %v", lines, err)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add(full + "Subject: x\n\nbody")
	f.Add("to <a@b>\nenv-eof\n")
	f.Fuzz(func(t *testing.T, s string) {
		e, rest, err := ReadEnvelope(strings.NewReader(s))
		if err != nil {
			return
		}
		text, err := io.ReadAll(rest)
		if err != nil || s[e.Size:] != string(text) {
			t.Fatalf("size %d of %q, rest %q, %v", e.Size, s, text, err)
		}
		for _, r := range e.To {
			if r.Address == "" || strings.ContainsAny(r.Address+r.DSN, "\n\r\x00") {
				t.Errorf("recipient %+v", r)
			}
		}
	})
}
