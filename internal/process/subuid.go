package process

// Subordinate uids (subuid(5)): a user may have a range of them, usually 65536, as which
// newuidmap(1) lets the user run programs.

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"
)

// SubuidFile has the ranges. Tests replace it before the first call of UserOf.
var SubuidFile = "/etc/subuid"

// lookInterval is how often the file is looked at.
const lookInterval = time.Second

// UserOf returns the user whose range a uid is in, or the uid itself: where each user has a
// share, a user has one with the whole range. A range of root, whose share its containers must
// not take, or of a user who is not known stands for its first uid. UserOf says nothing about rights.
func UserOf(uid int) int { return system.userOf(uid, SubuidFile, time.Now()) }

// system has the ranges of SubuidFile.
var system subuids

// subuids are the ranges of a file as it was when it was last looked at.
type subuids struct {
	mu       sync.Mutex
	lookedAt time.Time
	text     string
	ranges   []*subuidRange
}

// subuidRange is a line of the file.
type subuidRange struct {
	name         string // of the user, or the uid
	first, count uint64
	user         int // what UserOf returns; 0: it is not looked up yet
}

func (s *subuids) userOf(uid int, file string, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.lookedAt).Abs() >= lookInterval {
		s.lookedAt = now
		text, err := os.ReadFile(file)
		if string(text) != s.text && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			s.text, s.ranges = string(text), parseSubuids(string(text))
		}
	}
	for _, r := range s.ranges {
		if n := uint64(uid); n >= r.first && n-r.first < r.count {
			if r.user == 0 {
				r.user = r.findUser()
			}
			return r.user
		}
	}
	return uid
}

// parseSubuids reads lines of the form user:first:count. Others are ignored.
func parseSubuids(text string) (ranges []*subuidRange) {
	for line := range strings.Lines(text) {
		words := strings.Split(strings.TrimSpace(line), ":")
		if len(words) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(words[1], 10, 32)
		count, err2 := strconv.ParseUint(words[2], 10, 32)
		if err1 == nil && err2 == nil {
			ranges = append(ranges, &subuidRange{name: words[0], first: first, count: count})
		}
	}
	return ranges
}

func (r *subuidRange) findUser() int {
	word := r.name
	if u, err := user.Lookup(word); err == nil {
		word = u.Uid
	}
	if uid, err := strconv.Atoi(word); err == nil && uid > 0 {
		return uid
	}
	return int(r.first)
}
