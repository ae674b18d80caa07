package smtp

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzTables reads any file as a table of TLS policies and of secrets: what is
// accepted has known levels, and every destination has a policy.
func FuzzTables(f *testing.F) {
	f.Add("example.org encrypt\n.example.net secure mx.example.net\n* may\n# x\n", "a.example.net")
	f.Add("bücher.example verify\n((a)(b)) none\n[192.0.2.1] dane\n", "((bücher.example)(x))")
	f.Add("mx.example.org user password plaintext PLAIN\n. u p\n* u p LOGIN\n", "mx.example.org")
	f.Fuzz(func(t *testing.T, text, destination string) {
		name := filepath.Join(t.TempDir(), "table")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		policies := NewTLS()
		if policies.ReadPolicy(name) == nil {
			if p := policies.policy(destination); int(p.Level) < 0 || int(p.Level) >= len(tlsLevels) {
				t.Errorf("%q has the level %d", destination, p.Level)
			}
		}
		if secrets, err := ReadSecrets(name); err == nil {
			secrets.find(destination)
		}
	})
}
