package server

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"zsched/mailq"
)

const (
	maxReasons   = 1000 // lines of SHOW REASONS; further kinds count as others
	maxReasonKey = 200  // bytes of a diagnostic that are compared
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

func gatherReasons(ctx context.Context, queue Queue) ([]*mailq.ReasonItem, error) {
	byReason := make(map[string]*mailq.ReasonItem)
	others := &mailq.ReasonItem{Reason: "(others)", Others: true}
	var list, seen []*mailq.ReasonItem
	for job, err := range queue.Jobs(ctx, mailq.Name{}) {
		if err != nil {
			return nil, err
		}
		seen = seen[:0]
		for i := range job.Recipients {
			text := job.Recipients[i].Reason
			if text == "" {
				continue
			}
			key := reasonKey(text)
			it := byReason[key]
			switch {
			case it == nil && len(list) == maxReasons:
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

// reasonKey returns what diagnostics of one kind have in common: the last reply
// without the parts that differ between attempts. "..." replaces all text inside <>
// and [], which usually holds addresses and ports. Outside them, it replaces host
// names, addresses and times of day.
func reasonKey(text string) string {
	text = mailq.LastReply(text)
	var b strings.Builder
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

// appendMasked appends a text. "..." replaces each host name, address and time
// of day in it.
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
		if isHostName(word) || isAddress(word) || isTimeOfDay(word) {
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
