package sm

// Mailers: the lines of sm.conf.

import (
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
	File      string
	Line, Col int    // from 1, Col in bytes
	Mailer    string // the name in that line
	Text      string
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: mailer %s: %s", p.File, p.Line, p.Col, p.Mailer, p.Text)
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
		words := split(strings.TrimRight(line, "\r\n"))
		if len(words) == 0 || words[0].col > 1 || line[0] == '#' {
			continue
		}
		if name := words[0].text; !seen[name] {
			seen[name] = true
			m, problem := parseMailer(words, mailbin, zenv)
			if problem != nil {
				problem.File, problem.Line, problem.Mailer = file, number, name
				problems = append(problems, problem)
				continue
			}
			mailers[name] = m
		}
	}
	return mailers, problems
}

// word is a word of a line and its column.
type word struct {
	text string
	col  int
}

func split(line string) (words []word) {
	for i := 0; i < len(line); {
		if line[i] == ' ' || line[i] == '\t' {
			i++
			continue
		}
		n := strings.IndexAny(line[i:], " \t")
		if n < 0 {
			n = len(line) - i
		}
		words = append(words, word{line[i : i+n], i + 1})
		i += n
	}
	return words
}

func parseMailer(words []word, mailbin string, zenv func(string) (string, bool)) (*Mailer, *Problem) {
	last := words[len(words)-1]
	end := last.col + len(last.text)
	for n, missing := range []string{1: "flags (- for none)", 2: "program", 3: "argument: the name by which the program is called"} {
		if n > 0 && len(words) == n {
			return nil, &Problem{Col: end, Text: "missing " + missing}
		}
	}
	m := &Mailer{Name: words[0].text, Program: words[2].text}
	var problem *Problem
	if problem = m.parseFlags(words[1]); problem != nil {
		return nil, problem
	}
	if !strings.HasPrefix(m.Program, "/") {
		m.Program = mailbin + "/" + m.Program
	}
	for _, w := range words[3:] {
		arg, problem := parseArgument(w, zenv)
		if problem != nil {
			return nil, problem
		}
		m.Args = append(m.Args, arg)
	}
	return m, nil
}

// parseFlags reads the flags. Those of UUCP and batch SMTP are no error, so that mail
// for such a mailer waits and is not returned.
func (m *Mailer) parseFlags(w word) *Problem {
	for i, c := range w.text {
		at := strings.IndexRune(flagLetters, c)
		switch {
		case c == 'U':
			m.Unsupported = "UUCP (flag U)"
		case c == 'b' || c == 'B':
			m.Unsupported = fmt.Sprintf("batch SMTP (flag %c)", c)
		case at >= 0:
			m.Flags |= 1 << at
		case !strings.ContainsRune(ignoredLetters, c):
			return &Problem{Col: w.col + i, Text: fmt.Sprintf("%q is not a flag", c)}
		}
	}
	return nil
}
