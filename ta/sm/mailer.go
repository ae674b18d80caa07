package sm

// Mailers: the lines of sm.conf.

import (
	"errors"
	"fmt"
	"strings"
)

// Flags are the flags of a mailer, one letter each (sm.conf(5)).
type Flags uint32

// The flags, in the order of their letters in flagLetters.
const (
	Many        Flags = 1 << iota // m: one run for several recipients
	NoFrom                        // n: no From line
	StripQuotes                   // s: addresses without their quotes
	OwnUser                       // S: run as the agent's user
	PassR                         // r: -r sender
	PassF                         // f: -f sender
	ReturnPath                    // P: a Return-Path field
	HideDots                      // X: dots that begin a line are doubled
	QuoteFrom                     // E: ">From " in the body
	CRLF                          // R: lines end with CR and LF
	Envelope                      // e: X-Envelope-To fields
)

const (
	flagLetters = "mnsSrfPXERe"
	// ignoredLetters are flags of sendmail and ZMailer that have no effect here.
	ignoredLetters = "aAcCdDFghHiIjklLMNopquvVwWxzZ012356789:|/@%!-"
)

// Mailer is a line of the file: how a program is run.
type Mailer struct {
	Name    string
	Flags   Flags
	Program string // absolute
	// Args are its arguments. The first is the name under which it is called.
	Args []Argument
	// Unsupported says what this mailer needs and we do not have: its mail waits. "": nothing.
	Unsupported string
}

// refusal says why the mail of a mailer that is not supported waits.
func (m *Mailer) refusal() string {
	return fmt.Sprintf("mailer %s of sm.conf needs %s, which sm does not support", m.Name, m.Unsupported)
}

// Problem is an error in the file and its place.
type Problem struct {
	File   string
	Line   int    // from 1
	Mailer string // the name in that line
	Err    error
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%s:%d: mailer %s: %v", p.File, p.Line, p.Mailer, p.Err)
}

// Parse reads the text of an sm.conf. Programs whose name does not begin with "/" are
// below mailbin; zenv finds the value of ${NAME}. A mailer with a problem is not
// among the mailers. If several lines have the same name, the first applies.
func Parse(file, text, mailbin string, zenv func(name string) (string, bool)) (mailers map[string]*Mailer, problems []*Problem) {
	mailers = map[string]*Mailer{}
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.FieldsFunc(strings.TrimRight(line, "\r\n"), func(c rune) bool { return c == ' ' || c == '\t' })
		if len(words) == 0 || strings.ContainsAny(line[:1], " \t#") || seen[words[0]] {
			continue
		}
		name := words[0]
		seen[name] = true
		m, err := parseMailer(words, mailbin, zenv)
		if err != nil {
			problems = append(problems, &Problem{file, number, name, err})
			continue
		}
		mailers[name] = m
	}
	return mailers, problems
}

func parseMailer(words []string, mailbin string, zenv func(string) (string, bool)) (*Mailer, error) {
	switch len(words) {
	case 1:
		return nil, errors.New("missing flags (- for none)")
	case 2:
		return nil, errors.New("missing program")
	case 3:
		return nil, errors.New("missing argument: the name by which the program is called")
	}
	m := &Mailer{Name: words[0], Program: words[2]}
	if err := m.parseFlags(words[1]); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(m.Program, "/") {
		m.Program = mailbin + "/" + m.Program
	}
	for _, w := range words[3:] {
		arg, err := parseArgument(w, zenv)
		if err != nil {
			return nil, err
		}
		m.Args = append(m.Args, arg)
	}
	return m, nil
}

// parseFlags reads the flags. Those of UUCP and batch SMTP are no error, so that mail
// for such a mailer waits and is not returned.
func (m *Mailer) parseFlags(letters string) error {
	for _, c := range letters {
		at := strings.IndexRune(flagLetters, c)
		switch {
		case c == 'U':
			m.Unsupported = "UUCP (flag U)"
		case c == 'b' || c == 'B':
			m.Unsupported = fmt.Sprintf("batch SMTP (flag %c)", c)
		case at >= 0:
			m.Flags |= 1 << at
		case !strings.ContainsRune(ignoredLetters, c):
			return fmt.Errorf("%q is not a flag", c)
		}
	}
	return nil
}
