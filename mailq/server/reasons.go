package server

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"zsched/mailq"
)

const (
	maxReasons   = 1000    // lines of SHOW REASONS; the less frequent kinds count as others
	maxKinds     = 1 << 20 // kinds without a line whose recipients are counted
	maxReasonKey = 200     // bytes of a diagnostic that are compared
)

// showReasons executes SHOW REASONS: the last diagnostics of all recipients,
// grouped, the most frequent first.
func showReasons(r *request, ctx context.Context) bool {
	return !r.hasNoArguments() || r.list(func(out *answer) error {
		items, err := gatherReasons(ctx, r.server.queue)
		if err != nil {
			return err
		}
		if !r.asJSON {
			if err := out.text(fmt.Sprintf("%8s %8s  %s", "Rcpnts", "Jobs", "Reason")); err != nil {
				return err
			}
		}
		for _, it := range items {
			if r.asJSON {
				err = out.object(it)
			} else {
				err = out.text(fmt.Sprintf("%8d %8d  %s", it.Recipients, it.Jobs, it.Reason))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// gatherReasons counts the first maxReasons kinds. If a kind without a line is more
// frequent than one of these, it counts once more, with lines for the most frequent ones.
func gatherReasons(ctx context.Context, queue Queue) ([]*mailq.ReasonItem, error) {
	kinds := &reasonKinds{seed: maphash.MakeSeed(), unlisted: make(map[uint64]int)}
	list, err := kinds.gather(ctx, queue)
	if err != nil || !kinds.selectLargest(list) {
		return list, err
	}
	return kinds.gather(ctx, queue)
}

// reasonKinds says which kinds of diagnostics have a line of their own.
type reasonKinds struct {
	seed maphash.Seed
	// listed are the hashes of the kinds that have a line; nil: the first maxReasons that
	// are found.
	listed   map[uint64]bool
	unlisted map[uint64]int // recipients of each other kind, by its hash; at most maxKinds
}

func (k *reasonKinds) mayList(key string, lines int) bool {
	hash := maphash.String(k.seed, key)
	if k.listed != nil {
		return k.listed[hash]
	}
	if lines < maxReasons {
		return true
	}
	if n, counted := k.unlisted[hash]; counted || len(k.unlisted) < maxKinds {
		k.unlisted[hash] = n + 1
	}
	return false
}

// selectLargest makes the most frequent kinds those that have a line. It reports whether
// one of them has none in list.
func (k *reasonKinds) selectLargest(list []*mailq.ReasonItem) bool {
	type kind struct {
		hash       uint64
		recipients int
	}
	var kinds []kind
	for _, it := range list {
		if !it.Others {
			kinds = append(kinds, kind{maphash.String(k.seed, it.Reason), it.Recipients})
		}
	}
	for hash, n := range k.unlisted {
		kinds = append(kinds, kind{hash, n})
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.recipients, a.recipients) })
	k.listed = make(map[uint64]bool)
	missing := false
	for _, it := range kinds[:min(len(kinds), maxReasons)] {
		k.listed[it.hash] = true
		_, unlisted := k.unlisted[it.hash]
		missing = missing || unlisted
	}
	return missing
}

func (k *reasonKinds) gather(ctx context.Context, queue Queue) ([]*mailq.ReasonItem, error) {
	byReason := make(map[string]*mailq.ReasonItem)
	others := &mailq.ReasonItem{Reason: "(others)", Others: true}
	var list, seen []*mailq.ReasonItem
	for job, err := range queue.Jobs(ctx, mailq.Name{}) {
		if err != nil {
			return nil, err
		}
		seen = seen[:0]
		for i := range job.Recipients {
			text := job.ReasonOf(&job.Recipients[i])
			if text == "" {
				continue
			}
			key := reasonKey(text)
			it := byReason[key]
			switch {
			case it == nil && !k.mayList(key, len(list)):
				it = others
			case it == nil:
				// Clones, so that no key keeps a job's strings in memory.
				it = &mailq.ReasonItem{
					Reason: strings.Clone(key), Example: strings.Clone(text),
					Destination: mailq.Name{Channel: strings.Clone(job.Channel), Host: strings.Clone(job.Host)},
				}
				byReason[it.Reason] = it
				list = append(list, it)
			}
			it.Recipients++
			if !slices.Contains(seen, it) {
				it.Jobs++
				seen = append(seen, it)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *mailq.ReasonItem) int { return cmp.Compare(b.Recipients, a.Recipients) })
	if others.Recipients > 0 {
		list = append(list, others)
	}
	return list, nil
}

// replyStart matches the beginning of a reply or of a line of it: the reply code of
// SMTP and the enhanced status code (RFC 3463), which are kept.
var replyStart = regexp.MustCompile(`^(smtp; )?([2-5]\d\d)[- ]([245]\.\d{1,3}\.\d{1,3}(?: |$))?`)

// replyText returns the last reply in a diagnostic with all its lines joined. The
// codes that begin each line of a reply in SMTP are there once.
func replyText(reason string) string {
	lines := strings.FieldsFunc(reason, func(r rune) bool { return r == '\r' || r == '\n' })
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return ""
	}
	last := mailq.LastReply(lines[len(lines)-1])
	codes := replyStart.FindStringSubmatch(last)
	if codes == nil {
		return last
	}
	text := last[len(codes[0]):]
	for _, line := range slices.Backward(lines[:len(lines)-1]) {
		line = mailq.LastReply(line)
		before := replyStart.FindString(line)
		if !strings.HasPrefix(strings.TrimPrefix(line, "smtp; "), codes[2]+"-") || len(text) > maxReasonKey*4 {
			break
		}
		text = line[len(before):] + " " + text
	}
	return codes[1] + codes[2] + " " + codes[3] + text
}

// reasonKey returns what diagnostics of one kind have in common: the last reply
// without the parts that differ between attempts. "..." replaces all text inside <>
// and [], which usually holds addresses and ports. Outside them, it replaces host
// names, addresses, times, numbers and identifiers.
func reasonKey(text string) string {
	text = replyText(text)
	var b strings.Builder
	codes := replyStart.FindString(text)
	b.WriteString(codes)
	text = text[len(codes):]
	for text != "" && b.Len() < maxReasonKey {
		i := strings.IndexAny(text, "<[")
		if i < 0 {
			appendMasked(&b, text)
			break
		}
		// A bracket counts only if it is closed before the next one opens, so
		// the arrow "<<-" of a transcript does not count.
		pair := "<>"
		if text[i] == '[' {
			pair = "[]"
		}
		appendMasked(&b, text[:i])
		b.WriteByte(text[i])
		end := strings.IndexAny(text[i+1:], pair)
		if end > 0 && text[i+1+end] == pair[1] {
			b.WriteString("...")
			i += end
		}
		text = text[i+1:]
	}
	return cutText(mailq.Field(b.String()), maxReasonKey)
}

// appendMasked appends a text. "..." replaces each host name, address, time, number
// and identifier in it.
func appendMasked(b *strings.Builder, text string) {
	for text != "" && b.Len() < maxReasonKey {
		n := 0
		for n < len(text) && isNamePart(text[n]) {
			n++
		}
		if n == 0 {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		word := strings.TrimRight(text[:n], ".:-")
		afterColon := strings.HasSuffix(strings.TrimRight(b.String(), " "), ":")
		if isHostName(word) || isAddress(word) || isTimeOfDay(word) ||
			!isCode(word, afterColon) && (isNumber(word) || isIdentifier(word)) {
			b.WriteString("..." + text[len(word):n])
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
}

func isNamePart(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '.' || c == '-' || c == ':' || c == '_' ||
		c == '@' || c == '+'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isHostName reports whether a word, or what follows its "@", has two or more
// labels and ends in letters like a domain. "4.2.2" and "e.g" are not host
// names.
func isHostName(word string) bool {
	word = word[strings.LastIndexByte(word, '@')+1:]
	dot := strings.LastIndexByte(word, '.')
	if dot <= 0 || strings.Contains(word, "..") || strings.Contains(word, ":") {
		return false
	}
	for i := dot + 1; i < len(word); i++ {
		if isDigit(word[i]) && !strings.HasPrefix(word[dot+1:], "xn--") {
			return false
		}
	}
	return len(word)-dot > 2
}

// isAddress reports whether a word is an IP address, perhaps with a port.
func isAddress(word string) bool {
	if _, err := netip.ParseAddr(word); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(word)
	return err == nil
}

// isTimeOfDay reports whether a word is a time such as 08:15 or 8:15:09.
func isTimeOfDay(word string) bool {
	parts := strings.Split(word, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return false
	}
	for i, part := range parts {
		part, _, _ = strings.Cut(part, ".")
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || n > 60 || len(part) > 2 || i > 0 && len(part) != 2 {
			return false
		}
	}
	return true
}

// isCode reports whether a word is an enhanced status code, or a reply code, which
// follows a colon inside a text.
func isCode(word string, afterColon bool) bool {
	if afterColon && len(word) == 3 && '2' <= word[0] && word[0] <= '5' {
		return true
	}
	parts := strings.Split(word, ".")
	if len(parts) != 3 || !slices.Contains([]string{"2", "4", "5"}, parts[0]) {
		return false
	}
	return isDigits(parts[1]) && isDigits(parts[2])
}

func isDigits(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// isNumber reports whether a word is a number, perhaps with a unit such as "s" or
// "ms".
func isNumber(word string) bool {
	unit := strings.TrimLeft(word, "0123456789")
	return len(unit) < len(word) && len(unit) <= 2 && !strings.ContainsAny(unit, ".-:_@+")
}

// minIdentifier is the length of the shortest word that counts as an identifier.
const minIdentifier = 8

// isIdentifier reports whether a word looks like an identifier of a message or a
// session: a long one with at least two digits.
func isIdentifier(word string) bool {
	digits := 0
	for i := range len(word) {
		if isDigit(word[i]) {
			digits++
		}
	}
	return len(word) >= minIdentifier && digits >= 2
}

// cutText returns at most n bytes of s and does not split a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
