package limit

import "time"

// Names remembers for a while by which server each destination is served, so that the
// limits of a server hold for all its destinations. K is a destination.
type Names[K comparable] struct {
	Most           int // that are remembered; beyond that, the one noted longest ago is forgotten
	known          map[K]*named[K]
	oldest, newest *named[K]
}

// named is the name of one destination.
type named[K comparable] struct {
	key          K
	name         string
	until        time.Duration // it is forgotten then
	older, later *named[K]
}

// Len is how many are remembered.
func (n *Names[K]) Len() int { return len(n.known) }

// Note remembers a name until a time. It reports whether the name has changed.
func (n *Names[K]) Note(key K, name string, until time.Duration) (changed bool) {
	before := n.known[key]
	changed = before == nil || before.name != name
	n.Forget(key)
	if len(n.known) >= n.Most {
		n.Forget(n.oldest.key)
	}
	if n.known == nil {
		n.known = make(map[K]*named[K])
	}
	one := &named[K]{key: key, name: name, until: until, older: n.newest}
	if n.newest != nil {
		n.newest.later = one
	} else {
		n.oldest = one
	}
	n.newest, n.known[key] = one, one
	return changed
}

// Find returns the name of a destination and until when it is remembered; "": none.
func (n *Names[K]) Find(now time.Duration, key K) (name string, until time.Duration) {
	if one := n.known[key]; one != nil && one.until > now {
		return one.name, one.until
	}
	return "", 0
}

// Forget forgets the name of a destination.
func (n *Names[K]) Forget(key K) {
	one := n.known[key]
	if one == nil {
		return
	}
	if one.older != nil {
		one.older.later = one.later
	} else {
		n.oldest = one.later
	}
	if one.later != nil {
		one.later.older = one.older
	} else {
		n.newest = one.older
	}
	delete(n.known, key)
}

// Expire forgets the names whose time is over.
func (n *Names[K]) Expire(now time.Duration) {
	for n.oldest != nil && n.oldest.until <= now {
		n.Forget(n.oldest.key)
	}
}
