package config

// text is a string. ${NAME} is expanded where it is a path.
type text[T any] struct {
	field func(*T) *string // nil: without effect
	path  bool
}

func (k text[T]) String() string {
	if k.path {
		return "path"
	}
	return "text"
}

func (k text[T]) read(value string, r *reader) (func(*T), error) {
	if k.path {
		value = r.expand(value)
	}
	return func(v *T) {
		if k.field != nil {
			*k.field(v) = value
		}
	}, nil
}

func (k text[T]) show(v *T) string {
	if k.field == nil || *k.field(v) == "" {
		return ""
	}
	return `"` + *k.field(v) + `"`
}
