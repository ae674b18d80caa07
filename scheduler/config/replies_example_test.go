package config

import "testing"

// The example of reply rules loads, and matches replies as the providers write them.
func TestExampleOfReplyRules(t *testing.T) {
	file := mustParse(t, "PARAMreplies=../../replies.example\nsmtp command=x\n")
	for reply, action := range map[string]string{
		"421-4.7.28 [192.0.2.1] Gmail has detected an unusual rate of unsolicited mail. - gsmtp":                               "rate 30/1m 1h",
		"450-4.2.1 The user you are trying to contact is receiving email at a rate that prevents - gsmtp":                      "defer 30m",
		"421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints":           "suspend 2h",
		"421 RP-001 (SNT0-MC2-F19) Unfortunately, some messages from 192.0.2.1 weren't sent.":                                  "rate 30/1m 1h",
		"550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent; part of their network is on our block list (S3150).": "suspend 4h",
		"451 4.7.500 Server busy. Please try again later from 192.0.2.1.":                                                      "rate 30/1m 30m",
		"451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation. (S775)":               "rate 30/1m 1h",
		"450 4.7.1 greylisted": "",
	} {
		got := ""
		if try := file.TryReply(reply); len(try) > 0 {
			got = try[0].Action
		}
		if got != action {
			t.Errorf("%q: %q, want %q", reply, got, action)
		}
	}
}
