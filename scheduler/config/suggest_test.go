package config

import "testing"

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"intervall": "interval", "INTERVL": "interval", "retires": "retries", "maxthread": "maxthr",
		"comand": "command", "usr": "user", "expire": "expiry", "exipry2": "expiry2", "nce": "nice",
		"byhost": "", "gangschedule": "", "x": "", "": "", "zzzzzzzz": "",
	} {
		if got := mostLike(name, names(keywords)); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}
