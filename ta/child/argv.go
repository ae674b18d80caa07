package child

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Command turns the words of a clause's command=, already expanded, into what
// Spec wants. Leading words that hold a '=' are its environment; the next is
// the program, below mailbin/ta (mailbin is absolute) unless it begins with '/'; nothing is looked
// up along PATH. The environment is exactly those assignments, then TZ as the
// scheduler has it, then PATH and ZCONFIG as env, the ZENV file's, has them;
// an assignment in the command keeps out the later one of that name.
func Command(words []string, mailbin string, env map[string]string) (path string, args, environ []string, err error) {
	for len(words) > 0 && strings.Contains(words[0], "=") {
		environ = append(environ, words[0])
		words = words[1:]
	}
	if len(words) == 0 {
		return "", nil, nil, errors.New("command names no program")
	}
	if path = words[0]; path == "" {
		return "", nil, nil, errors.New("command's program is an empty word")
	}
	if path[0] != '/' {
		path = filepath.Join(mailbin, "ta", path)
	}
	args = append([]string{path}, words[1:]...)

	assigned := environ
	inherit := func(name, value string, ok bool) {
		for _, a := range assigned {
			ok = ok && !strings.HasPrefix(a, name+"=")
		}
		if ok {
			environ = append(environ, name+"="+value)
		}
	}
	tz, ok := os.LookupEnv("TZ")
	inherit("TZ", tz, ok)
	for _, name := range []string{"PATH", "ZCONFIG"} {
		value, ok := env[name]
		inherit(name, value, ok)
	}
	return path, args, environ, nil
}
