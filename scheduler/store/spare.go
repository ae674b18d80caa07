package store

// Spare values, which are used again.

// Spare has values that are no longer used, so that the next ones need not be allocated.
type Spare[T any] []*T

// Take removes a value and returns it as it was put there; nil: there is none.
func (s *Spare[T]) Take() *T {
	last := len(*s) - 1
	if last < 0 {
		return nil
	}
	value := (*s)[last]
	*s = (*s)[:last]
	return value
}

// Put keeps a value for Take.
func (s *Spare[T]) Put(value *T) { *s = append(*s, value) }
