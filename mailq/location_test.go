package mailq

import "testing"

func TestLocationIsReadAsItIsWritten(t *testing.T) {
	for _, l := range []Location{{"/var/spool/postoffice", "1:2"}, {"/a b/\"c\n", "-"}} {
		challenge := "220 MAILQ-V2-CHALLENGE: 1.2.3 " + l.String()
		if got := ParseLocation(challenge); got != l {
			t.Errorf("%q is read as %+v", challenge, got)
		}
	}
	for _, challenge := range []string{"", "220 MAILQ-V2-CHALLENGE: 1.2.3", "220 x POSTOFFICE ", `220 x POSTOFFICE 1:2 "`} {
		if got := ParseLocation(challenge); got != (Location{}) {
			t.Errorf("%q is read as %+v", challenge, got)
		}
	}
}

func TestLocationIsOther(t *testing.T) {
	ours := Location{"/a", "1:2"}
	for than, want := range map[Location]bool{
		ours: false, {"/a", "1:3"}: false, {"/link", "1:2"}: false, {"/b", "-"}: false, {}: false, {"/b", "1:3"}: true,
	} {
		if ours.IsOther(than) != want || than.IsOther(ours) != want {
			t.Errorf("%v and %v: want %v", ours, than, want)
		}
	}
}
