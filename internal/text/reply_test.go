package text

import "testing"

func TestLastReply(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"\r \n":                              "",
		"451 busy\r\n ":                      "451 busy",
		"connect to a: timed out\r":          "connect to a: timed out",
		"\r->> 250 ok\r<<- RCPT To:<a@b>":    "no reply to RCPT",
		"\r->> (peer closed the connection)": "(peer closed the connection)",
		"\r<<- RCPT To:<a@b>\r->> 452-4.2.2 The inbox is\r->> 452-4.2.2 out of space.\r->> 452 4.2.2 x - gsmtp": "452 4.2.2 The inbox is out of space. x - gsmtp",
		"\r->> 250-4.2.2 not this\r->> 450 4.2.1 later":                                                         "450 4.2.1 later",
		"->> 450-4.2.1 one\r->> 450 two":                                                                        "450 4.2.1 one two",
		"->> 450-4.2.1 one\r->> 450 4.7.1 two":                                                                  "450 4.7.1 4.2.1 one two",
		"->> 450-4.2.1 one\r->> 450-\r->> 450-4.2.1\r->> 450 ":                                                  "450 4.2.1 one",
		"->> 421":                                "421",
		"421-4.7.0 only one":                     "421 4.7.0 only one",
		"smtp; 421-4.7.28 Gmail\n421 4.7.28 end": "421 4.7.28 Gmail end",
		"smtp; 421 4.7.28 end":                   "smtp; 421 4.7.28 end",
		"4210 is no code":                        "4210 is no code",
	} {
		if got := LastReply(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
