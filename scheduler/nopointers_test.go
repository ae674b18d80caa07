package scheduler

import (
	"reflect"
	"testing"
	"time"

	"zsched/ctlfile"
)

// TestWaitingMailHasNoPointers: the garbage collector does not look into
// waiting mail. Pointers in a million messages would cost pauses of many
// milliseconds.
func TestWaitingMailHasNoPointers(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[message](), reflect.TypeFor[vertex](),
		reflect.TypeFor[messageRef](),
	} {
		if name := pointerIn(typ); name != "" {
			t.Errorf("%v has a pointer: %s", typ, name)
		}
	}
}

func pointerIn(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if name := pointerIn(t.Field(i).Type); name != "" {
				return t.Field(i).Name + " " + name
			}
		}
		return ""
	case reflect.Array:
		return pointerIn(t.Elem())
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return ""
	}
	return t.String()
}

// TestThreadIsInCacheLines: each group of the fields of a thread begins with a cache line.
func TestThreadIsInCacheLines(t *testing.T) {
	const cacheLine, lines = 64, 6
	groups := []string{"ref", "window", "vertices", "fair", "agents", "key"}
	typ := reflect.TypeFor[thread]()
	for i, name := range groups {
		if f, _ := typ.FieldByName(name); f.Offset != uintptr(i)*cacheLine {
			t.Errorf("%s is at %d, not at the beginning of cache line %d", name, f.Offset, i)
		}
	}
	if typ.Size() > lines*cacheLine {
		t.Errorf("a thread has %d bytes", typ.Size())
	}
}

// TestAnswerForAnother: an answer about a message that has left does nothing to
// the one that now has its place in memory.
func TestAnswerForAnother(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := plain(0)
	arrive := func(id MessageID) {
		s.Step(At(now), Arrived{Message{ID: id, Path: "1", ModifiedAt: now, Recipients: []ctlfile.OpenRecipient{
			{Offset: 1, Channel: "smtp", Host: "a"}, {Offset: 2, Channel: "smtp", Host: "b"},
		}}})
	}
	reads := func(id MessageID) (ops []Op) {
		for agent := AgentID(1); agent <= 2; agent++ {
			for _, a := range s.Step(At(now), AgentResync{agent, id}) {
				if r, ok := a.(Read); ok {
					ops = append(ops, r.Op)
				}
			}
		}
		return ops
	}
	arrive(1)
	s.Step(At(now), AgentSaid{1, Hungry})
	s.Step(At(now), AgentSaid{2, Hungry})
	old := reads(1)
	if len(old) != 2 {
		t.Fatalf("%d reads", len(old))
	}
	first := s.mail.message(1)
	s.Step(At(now), Failed{Op: old[0], Missing: true})
	arrive(2)
	if s.mail.message(2) != first {
		t.Fatal("the second message has another place in memory, so this test shows nothing")
	}
	s.Step(At(now), AgentSaid{1, Hungry})
	s.Step(At(now), AgentSaid{2, Hungry})
	if ops := reads(2); len(ops) != 2 {
		t.Fatalf("%d reads of the second", len(ops))
	}
	for _, a := range s.Step(At(now), Failed{Op: old[1], Reason: "no"}) {
		if n, ok := a.(Note); !ok || n.Message != 1 {
			t.Errorf("a failure about the first is told as %+v", a)
		}
	}
	s.Step(At(now), Failed{Op: old[1], Missing: true})
	s.check()
	if m, ok := s.Message(2); !ok || m.Leaving {
		t.Error("it was lost")
	}
}

// TestPartsAreSmall: a part has at most 40 fields, with what it embeds.
func TestPartsAreSmall(t *testing.T) {
	whole := reflect.TypeFor[Scheduler]()
	types := []reflect.Type{whole, reflect.TypeFor[thread](), reflect.TypeFor[ring](), reflect.TypeFor[agent]()}
	for i := range whole.NumField() {
		types = append(types, whole.Field(i).Type)
	}
	for _, typ := range types {
		if n := len(reflect.VisibleFields(typ)); n > 40 {
			t.Errorf("%v has %d fields", typ, n)
		}
	}
}

// TestPartsAreWired: no part misses another that it uses.
func TestPartsAreWired(t *testing.T) {
	whole := reflect.ValueOf(plain(0)).Elem()
	for i := range whole.NumField() {
		part := whole.Field(i)
		for j := range part.NumField() {
			name, field := part.Type().Field(j).Name, part.Field(j)
			if _, isPart := whole.Type().FieldByName(name); isPart && field.Kind() == reflect.Pointer && field.IsNil() {
				t.Errorf("%v has no %s", part.Type(), name)
			}
		}
	}
}
