package ctlfile

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParseNotify(t *testing.T) {
	for dsn, want := range map[string]Notify{
		"":                                    NotifyFailure,
		"ORCPT=rfc822;a@b":                    NotifyFailure,
		"NOTIFY=NEVER":                        NotifyNever,
		"notify=success,Delay":                NotifySuccess | NotifyDelay,
		"NOTIFY=SUCCESS,FAILURE,DELAY,TRACE":  NotifySuccess | NotifyFailure | NotifyDelay | NotifyTrace,
		"ORCPT=x NOTIFY=DELAY BY=1;R":         NotifyDelay,
		"\tORCPT=x \t NOTIFY=DELAY\t":         NotifyDelay,
		"NOTIFY=SUCCESS,bogus,FAILURE":        NotifySuccess,
		"NOTIFY=bogus,SUCCESS":                NotifyFailure,
		"NOTIFY=":                             NotifyFailure,
		"NOTIFY":                              NotifyFailure,
		"NOTIFY=SUCCESSFUL":                   NotifyFailure,
		"NOTIFY=,SUCCESS":                     NotifyFailure,
		"XNOTIFY=NEVER ORCPT=a;NOTIFY=NEVER":  NotifyFailure,
		"NOTIFY=NEVER NOTIFY=SUCCESS":         NotifyNever,
		"ORCPT=rfc822;b NOTIFY=FAILURE,DELAY": NotifyFailure | NotifyDelay,
	} {
		equal(t, dsn, ParseNotify(dsn), want)
	}
}

// The old scheduler split the words in place, so that a second notice had only
// the first of them.
func TestDeliveryParametersAreReadAsOftenAsAsked(t *testing.T) {
	f := mustParse(t, worked)
	for range 2 {
		equal(t, "NOTIFY", ParseNotify(f.Recipients[0].DSN), NotifySuccess|NotifyFailure)
		orcpt, ok := DSNWord(f.Recipients[0].DSN, "orcpt")
		equal(t, "ORCPT", orcpt, "rfc822;bob@example.net")
		equal(t, "ok", ok, true)
	}
	_, ok := DSNWord(f.Recipients[0].DSN, "INRCPT")
	equal(t, "INRCPT", ok, false)
}

func TestNotifyWants(t *testing.T) {
	equal(t, "asked", (NotifySuccess | NotifyDelay).Wants(NotifyDelay), true)
	equal(t, "not asked", NotifySuccess.Wants(NotifyFailure), false)
	equal(t, "never", (NotifyNever | NotifyFailure).Wants(NotifyFailure), false)
	equal(t, "string", (NotifySuccess | NotifyDelay).String(), "SUCCESS,DELAY")
	equal(t, "parsed", ParseNotify("NOTIFY="+(NotifyFailure|NotifyTrace).String()), NotifyFailure|NotifyTrace)
}

func TestDSNAddress(t *testing.T) {
	for value, want := range map[string][2]string{
		"rfc822;Bob+40Orig@orig.example": {"rfc822", "Bob@Orig@orig.example"},
		"x400;C=us":                      {"x400", "C=us"},
		"nobody":                         {"", "nobody"},
		"":                               {"", ""},
	} {
		kind, address := DSNAddress(value)
		equal(t, value, [2]string{kind, address}, want)
	}
}

func TestXtext(t *testing.T) {
	equal(t, "encode", EncodeXtext("a+b=c d\xff~!"), "a+2Bb+3Dc+20d+FF~!")
	for text, want := range map[string]string{
		"a+2Bb+3dc": "a+b=c", "+": "+", "a+4": "a+4", "+zz": "+zz", "++40": "+@", "+4+40": "+4@", "": "",
	} {
		equal(t, text, DecodeXtext(text), want)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		encoded := EncodeXtext(text)
		if DecodeXtext(encoded) != text || checkLine(encoded) != nil {
			t.Fatalf("EncodeXtext(%q) = %q", text, encoded)
		}
	})
}

func TestControlCharactersMakeADSNWordNone(t *testing.T) {
	for _, value := range []string{"60;R\rMAIL", "\x01", "a\x7f", "a\rb"} {
		if got, ok := DSNWord("NOTIFY=NEVER BY="+value, "BY"); ok || got != "" {
			t.Errorf("%q: %q, %v", value, got, ok)
		}
	}
}

// No request of a recipient that a message has twice is lost.
func TestMergeDSN(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"", "", ""},
		{"", "NOTIFY=SUCCESS ORCPT=rfc822;a", "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;a"},
		{"NOTIFY=NEVER", "", "NOTIFY=FAILURE"},
		{"NOTIFY=NEVER", "notify=success", "NOTIFY=SUCCESS"},
		{"NOTIFY=NEVER", "NOTIFY=NEVER INRCPT=b", "NOTIFY=NEVER INRCPT=b"},
		{"NOTIFY=DELAY BY=60;R", "NOTIFY=NEVER,SUCCESS", "NOTIFY=DELAY BY=60;R"},
		{"ORCPT=rfc822;a", "INRCPT=b ORCPT=rfc822;c", "ORCPT=rfc822;a INRCPT=b"},
	} {
		equal(t, c.first+" and "+c.second, MergeDSN(c.first, c.second), c.want)
	}
}
