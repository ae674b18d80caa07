package mailbox

import "testing"

func TestAddressesAreUnquoted(t *testing.T) {
	for word, want := range map[string]address{
		`bob`:                    {toUser, "bob", ""},
		`\bob`:                   {toUser, "bob", ""},
		`"\\bob"`:                {toUser, "bob", ""},
		`bob@Example.org`:        {toUser, "bob", "Example.org"},
		`"alice b"@example.org`:  {toUser, "alice b", "example.org"},
		`"a@b"@example.org`:      {toUser, "a@b", "example.org"},
		`"carol x"`:              {toUser, "carol x", ""},
		`"open`:                  {toUser, `"open`, ""},
		`"`:                      {toUser, `"`, ""},
		`"a"b"`:                  {toUser, `"a"b"`, ""},
		`-`:                      {toUser, "-", ""},
		`/var/x`:                 {toFile, "/var/x", ""},
		`"/var/my mail"`:         {toFile, "/var/my mail", ""},
		`"|/bin/x -a \"b c\" d"`: {toCommand, `/bin/x -a "b c" d`, ""},
		`|"/bin/x a"`:            {toCommand, "/bin/x a", ""},
		`"| /bin/x \\$y"`:        {toCommand, `/bin/x \$y`, ""},
		`\|x`:                    {toCommand, "x", ""},
		`|`:                      {toCommand, "", ""},
	} {
		if got := parseAddress(word); got != want {
			t.Errorf("%s: %+v, want %+v", word, got, want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{`bob`, `"|x \"y\""`, `\\"a`, `"\`, `a@`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if a := parseAddress(word); len(a.name)+len(a.domain) > len(word) {
			t.Errorf("%q became longer: %+v", word, a)
		}
	})
}
