package mime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// converted is the message after a conversion, and its plan.
func converted(t *testing.T, message string, how Conversion) (string, *Plan) {
	t.Helper()
	header, body, _ := strings.Cut(message, "\n\n")
	p, err := NewPlan(header+"\n", strings.NewReader(body), how)
	if err != nil {
		t.Fatalf("%q: %v", message, err)
	}
	var b bytes.Buffer
	b.WriteString(p.Header() + "\n")
	head := b.Len()
	if err := p.WriteBody(&b); err != nil {
		t.Fatal(err)
	}
	if has8(p.Header()) != p.EightBitHeader || has8(b.Bytes()[head:]) != p.EightBitBody {
		t.Errorf("%q: EightBitHeader %v, EightBitBody %v", b.String(), p.EightBitHeader, p.EightBitBody)
	}
	return b.String(), p
}

var (
	seven = Conversion{To: SevenBit}
	eight = Conversion{To: EightBit}
)

func TestConversion(t *testing.T) {
	for _, c := range []struct {
		name      string
		how       Conversion
		from, to  string
		cvt       string
		unchanged bool
	}{
		{
			name: "8bit becomes quoted-printable", how: seven, cvt: "QP",
			from: "Mime-Version: 1.0\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding:\n 8bit\nTo: x\n\n\xe4 = \tb \nFrom me\n.\n",
			to:   "Mime-Version: 1.0\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\nTo: x\n\n=E4 =3D \tb=20\n=46rom me\n=2E\n",
		},
		{
			name: "text that does not say what it is", how: seven, cvt: "UNKNOWN",
			from: "To: x\n\n\xe4\n",
			to:   "To: x\nMIME-Version: 1.0\nContent-Type: text/plain; charset=unknown-8bit\nContent-Transfer-Encoding: quoted-printable\n\n=E4\n",
		},
		{
			name: "and that is UTF-8", how: seven, cvt: "UNKNOWN",
			from: "To: x\n\nä",
			to:   "To: x\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A4",
		},
		{name: "7-bit stays", how: seven, cvt: "NONE", unchanged: true,
			from: "To: x\nContent-Transfer-Encoding: 8bit\n\na = b\t\n"},
		{name: "as is", cvt: "NONE", unchanged: true, from: "To: ä\n\nä=E4\n"},
		{
			name: "narrow: a TAB is enough", how: Conversion{To: SevenBit, Narrow: true}, cvt: "UNKNOWN",
			from: "To: x\n\na\tb c\n",
			to:   "To: x\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\na=09b=20c\n",
		},
		{
			name: "narrow: a blank at the end is enough", how: Conversion{To: SevenBit, Narrow: true}, cvt: "QP",
			from: "Content-Type: text/plain\nMIME-Version: 1.0\n\na \n",
			to:   "Content-Type: text/plain\nMIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\n\na=20\n",
		},
		{name: "narrow: blanks between words are not", how: Conversion{To: SevenBit, Narrow: true}, cvt: "NONE", unchanged: true,
			from: "To: x\n\na b\r\n"},
		{
			name: "parts of a multipart, each as it needs", how: seven, cvt: "MPQP",
			from: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b b\"\nContent-Transfer-Encoding: 8bit\n\n" +
				"pr\xe4\n--b b\n\nä\n--b b  \nContent-Type: application/x\nContent-Transfer-Encoding: binary\n\n\x80\n" +
				"--b b\nContent-Type: text/plain\n\nplain = text\n--b b--\nepilogue\n",
			to: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b b\"\nContent-Transfer-Encoding: 7bit\n\n" +
				"pr?\n--b b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A4\n" +
				"--b b  \nContent-Type: application/x\nContent-Transfer-Encoding: quoted-printable\n\n=80\n" +
				"--b b\nContent-Type: text/plain\n\nplain = text\n--b b--\nepilogue\n",
		},
		{
			name: "an inner multipart that an outer boundary ends", how: seven, cvt: "MPQP",
			from: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: multipart/alternative; boundary=oi\n\n" +
				"--oi\n\nä\n--o\n\nö\n--o--\n",
			to: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Type: multipart/alternative; boundary=oi\n\n" +
				"--oi\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A4\n" +
				"--o\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=B6\n--o--\n",
		},
		{
			name: "a forwarded message, in a digest", how: seven, cvt: "MPQP",
			from: "MIME-Version: 1.0\nContent-Type: multipart/digest; boundary=o\n\n--o\n\nSubject: ä\n\nö\n--o--\n",
			to: "MIME-Version: 1.0\nContent-Type: multipart/digest; boundary=o\n\n--o\n\nSubject: =?utf-8?q?=C3=A4?=\n" +
				"MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=B6\n--o--\n",
		},
		{
			name: "only the header of a part", how: seven, cvt: "MPQP",
			from: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Disposition: attachment; filename=\"ä b.txt\"\n\nx\n--o--\n",
			to:   "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Disposition: attachment;\n\tfilename*=utf-8''%C3%A4%20b.txt\n\nx\n--o--\n",
		},
		{
			name: "what should be encoded already", how: seven, cvt: "MPQP",
			from: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Transfer-Encoding: Quoted-Printable\n\n=C3ä=\n\n" +
				"--o\nContent-Transfer-Encoding: base64\n\nQU\xe4JD\n--o--\n",
			to: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Transfer-Encoding: Quoted-Printable\n\n=C3=C3=A4=\n\n" +
				"--o\nContent-Transfer-Encoding: base64\n\nQUJD\n--o--\n",
		},
		{
			name: "the header is kept", how: Conversion{To: SevenBit, KeepHeader: true}, cvt: "UNKNOWN",
			from: "Subject: ä\n\nä\n",
			to:   "Subject: ä\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A4\n",
		},
		{
			name: "the header alone", how: seven, cvt: "NONE",
			from: "Subject: ä\n\na\n", to: "Subject: =?utf-8?q?=C3=A4?=\n\na\n",
		},
		{name: "prohibited, but nothing to do", how: seven, cvt: "NONE", unchanged: true,
			from: "Subject: ä\nContent-Conversion: prohibited\n\na\n"},
		{
			name: "quoted-printable text decoded", how: eight, cvt: "8BIT",
			from: "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=c3=A4 = \nx=3D  \nFrom=20me=",
			to:   "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nä x=\nFrom me\n",
		},
		{
			name: "nothing above 127 in it", how: eight, cvt: "8BIT",
			from: "MIME-Version: 1.0\nContent-Transfer-Encoding: quoted-printable\n\na=3Db\n",
			to:   "MIME-Version: 1.0\nContent-Transfer-Encoding: 7bit\n\na=b\n",
		},
		{
			name: "in a multipart, text only", how: eight, cvt: "8BIT",
			from: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Transfer-Encoding: quoted-printable\n\n=E4=\n" +
				"--o\nContent-Type: application/x\nContent-Transfer-Encoding: quoted-printable\n\n=E4\n--o--\n",
			to: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\nContent-Transfer-Encoding: 8bit\n\n--o\nContent-Transfer-Encoding: 8bit\n\n\xe4\n" +
				"--o\nContent-Type: application/x\nContent-Transfer-Encoding: quoted-printable\n\n=E4\n--o--\n",
		},
		{name: "what was signed stays", how: eight, cvt: "NONE", unchanged: true,
			from: "MIME-Version: 1.0\nContent-Type: multipart/signed; boundary=o\n\n--o\nContent-Transfer-Encoding: quoted-printable\n\n=E4\n--o--\n"},
		{name: "a line would be a boundary", how: eight, cvt: "NONE", unchanged: true,
			from: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=o\n\n--o\nContent-Transfer-Encoding: quoted-printable\n\n=2D-o\n--o--\n"},
		{name: "a line would be too long", how: eight, cvt: "NONE", unchanged: true,
			from: "Content-Transfer-Encoding: quoted-printable\n\n" + strings.Repeat(strings.Repeat("=E4", 20)+"=\n", 50) + "\n"},
		{name: "NUL is no text", how: eight, cvt: "NONE", unchanged: true,
			from: "Content-Transfer-Encoding: quoted-printable\n\n=00\n"},
		{name: "that is no quoted-printable", how: eight, cvt: "NONE", unchanged: true,
			from: "Content-Transfer-Encoding: quoted-printable\n\n1=2x\n"},
	} {
		got, plan := converted(t, c.from, c.how)
		if c.unchanged {
			c.to = c.from
		}
		if got != c.to || plan.Cvt != c.cvt {
			t.Errorf("%s: cvt=%s\n%q, want\n%q", c.name, plan.Cvt, got, c.to)
		}
	}
}

func TestWhatCannotBeConvertedIsRefused(t *testing.T) {
	for _, message := range []string{
		"Content-Conversion: Prohibited\n\nä\n",
		"Content-Transfer-Encoding: x-uuencode\n\nä\n",
		"Content-Type: message/partial\n\nä\n",
		"Content-Type: multipart/mixed\n\nä\n",
		"Content-Type: multipart/mixed; boundary=b\n\n--b\nX: " + strings.Repeat("x", maxPartHeader) + "\n\nä\n--b--\n",
		"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nä\n" + strings.Repeat("--b\n\n\n", maxParts) + "--b--\n",
	} {
		header, body, _ := strings.Cut(message, "\n\n")
		if _, err := NewPlan(header+"\n", strings.NewReader(body), seven); !errors.Is(err, ErrConversion) {
			t.Errorf("%.80q: %v", message, err)
		}
	}
}

func TestDeepMessagesAreRefused(t *testing.T) {
	message := strings.Repeat("Content-Type: message/rfc822\n\n", 2*maxDepth) + "\nä\n"
	header, body, _ := strings.Cut(message, "\n\n")
	if _, err := NewPlan(header+"\n", strings.NewReader(body), seven); !errors.Is(err, ErrConversion) {
		t.Errorf("%v", err)
	}
}

type broken struct{ io.Reader }

func (broken) Seek(int64, int) (int64, error) { return 0, nil }

// Decoding is optional: a message that cannot be decoded is delivered as it is.
func TestWhatCannotBeDecodedStays(t *testing.T) {
	body := "--b\nX: " + strings.Repeat("y", maxPartHeader) + "\n\nx\n--b--\n"
	p, err := NewPlan("Content-Type: multipart/mixed; boundary=b\n", strings.NewReader(body), Conversion{To: EightBit})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := p.WriteBody(&got); err != nil || got.String() != body || p.Cvt != "NONE" {
		t.Errorf("%v, %s, %d bytes of %d", err, p.Cvt, got.Len(), len(body))
	}
}

func TestUnreadableMessageIsNoShorterMessage(t *testing.T) {
	bad := errors.New("input/output error")
	body := broken{io.MultiReader(strings.NewReader("ä\n"), iotest.ErrReader(bad))}
	if _, err := NewPlan("To: x\n", body, seven); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	p, err := NewPlan("To: x\n", strings.NewReader("ä\n"), seven)
	if err != nil {
		t.Fatal(err)
	}
	for _, parts := range [][]segment{nil, p.segments} {
		p.segments = parts
		p.body = broken{io.MultiReader(strings.NewReader("ä"), iotest.ErrReader(bad))}
		if err := p.WriteBody(io.Discard); !errors.Is(err, bad) {
			t.Errorf("%v", err)
		}
		if p.body = strings.NewReader("ä\n"); p.WriteBody(fullDisk{}) != errFull {
			t.Error("the error of the full disk is lost")
		}
	}
	p.body = strings.NewReader("ä") // a file that has become shorter
	if err := p.WriteBody(io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

func TestHeadersBecomeSevenBit(t *testing.T) {
	for from, to := range map[string]string{
		"Subject: one ä ö\n two ü\n":          "Subject: one =?utf-8?q?=C3=A4_=C3=B6?=\n two =?utf-8?q?=C3=BC?=\n",
		"Subject: \xe4\n":                     "Subject: =?unknown-8bit?q?=E4?=\n",
		"From: ä ö <a@b.example>\n":           "From: =?utf-8?q?=C3=A4_=C3=B6?= <a@b.example>\n",
		"To: \"ä, b\" <a@b>,\n x <c@d>\n":     "To: =?utf-8?b?w6QsIGI=?= <a@b>,\n\t\"x\" <c@d>\n",
		"Cc: <ä@b.example>\n":                 "Cc: <??@b.example>\n",
		"From: \xe4 <a@b>\n":                  "From: ? <a@b>\n",
		"Received: from ä\n\tby b\n":          "Received: from ??\n\tby b\n",
		"Content-Type: text/plain; x=\"ä\"\n": "Content-Type: text/plain;\n\tx*=utf-8''%C3%A4\n",
		"Content-Type: text/plain; =ä\n":      "Content-Type: text/plain; =??\n",
		"nonsense ä\n":                        "nonsense ??\n",
		"Subject: plain\nSubject: two \n ":    "Subject: plain\nSubject: two \n ",
	} {
		expect(t, header7(from), to)
	}
	long := header7("Subject: " + strings.Repeat("ä", 200) + "\n")
	for line := range strings.Lines(long) {
		if len(line) > 100 {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
}

// Whatever comes in, what goes out is 7-bit, and the same text.
func FuzzQuotedPrintable(f *testing.F) {
	f.Add([]byte("From ä\n.\n \r\n\r\x00 =\t\nx"), false)
	f.Add(bytes.Repeat([]byte("From ä ."), 40), true)
	f.Fuzz(func(t *testing.T, text []byte, narrow bool) {
		text = append(text, 0x80, '\n')
		got, _ := converted(t, "To: x\n\n"+string(text), Conversion{To: SevenBit, Narrow: narrow})
		_, body, _ := strings.Cut(got, "\n\n")
		for line := range strings.Lines(body) {
			if len(line) > 77 || strings.HasPrefix(line, "From ") || line == ".\n" || narrow && strings.ContainsAny(line, " \t\r") {
				t.Errorf("a line is %q", line)
			}
		}
		back, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
		if want := bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")); err != nil || !bytes.Equal(back, want) {
			t.Errorf("%q became %q, read as %q, %v", text, body, back, err)
		}
		// And back again by our own, where it is a text.
		again, plan := converted(t, got, eight)
		_, body, _ = strings.Cut(again, "\n\n")
		if plan.Cvt == "8BIT" && body != strings.ReplaceAll(string(text), "\r\n", "\n") {
			t.Errorf("%q was decoded to %q", text, body)
		}
	})
}

// No structure makes it panic, or leaves an 8-bit byte where none may be.
func FuzzConversion(f *testing.F) {
	f.Add("Content-Type: multipart/mixed; boundary=o\n\n--o\n\nä\n--o\nContent-Type: message/rfc822\n\nSubject: ä\n\nö\n--o--\nü", uint8(1))
	f.Add("Content-Type: multipart/digest; boundary=o\nContent-Transfer-Encoding: 8bit\n\n--o\nA: ä\n--o\n\n=E4\n--o", uint8(2))
	f.Fuzz(func(t *testing.T, message string, how uint8) {
		header, body, _ := strings.Cut(message, "\n\n")
		p, err := NewPlan(header+"\n", strings.NewReader(body), Conversion{To: Target(how % 3), Narrow: how&4 != 0})
		if errors.Is(err, ErrConversion) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var first, second bytes.Buffer
		if err := errors.Join(p.WriteBody(&first), p.WriteBody(&second)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Error("the second time it is another message")
		}
		if p.Cvt == "NONE" && first.String() != body {
			t.Errorf("%q became %q for no reason", body, first.String())
		}
		prohibited := strings.EqualFold(firstValue(header+"\n", "Content-Conversion"), "prohibited")
		if how%3 == uint8(SevenBit) && (has8(first.Bytes()) || !prohibited && has8(p.Header())) {
			t.Errorf("%q\n%q", p.Header(), first.String())
		}
	})
}

func TestUTF8InPieces(t *testing.T) {
	for text, want := range map[string]string{"äöü€😀": "utf-8", "ä\xe4": "unknown-8bit", "ä\xc3": "unknown-8bit", "": "utf-8"} {
		var u charsetCheck
		for i := range len(text) {
			u.add([]byte(text[i : i+1]))
		}
		if got := u.charset(); got != want || (want == "utf-8") != utf8.ValidString(text) {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func BenchmarkConversion(b *testing.B) {
	text := strings.Repeat("Eine Zeile, die nicht ganz leer ist, und ein ä.\n", 20_000)
	for _, how := range []Conversion{{}, seven} {
		b.Run(fmt.Sprint(how.To), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				p, err := NewPlan("To: x\n", strings.NewReader(text), how)
				if err == nil {
					err = p.WriteBody(io.Discard)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
