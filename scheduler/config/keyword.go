package config

// Keywords and PARAMs: the fields of rule.Params and Params whose tags say what a file may set.

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"zsched/scheduler/rule"
)

// row is one keyword of a clause, or one PARAM. It follows from the tags of the field that it sets.
type row struct {
	name    string // lower case
	aliases []string
	kind    kind
	preset  string // the default, as a file would set it; empty: none
	// atStart says that the scheduler reads a PARAM only when it starts.
	atStart bool

	field []int // as in reflect.StructField.Index, through the structs that have it
}

// The keywords of a clause, and the PARAMs.
var (
	keywords = rows(reflect.TypeFor[rule.Params]())
	params   = rows(reflect.TypeFor[Params]())
)

// rows returns a row for each field that has a kind, also for those of fields that are structs.
func rows(fields reflect.Type) (table []row) {
	for i := range fields.NumField() {
		f := fields.Field(i)
		tagged := f.Tag.Get("kind")
		if tagged == "" && f.Type.Kind() == reflect.Struct {
			for _, r := range rows(f.Type) {
				r.field = append([]int{i}, r.field...)
				table = append(table, r)
			}
		}
		if tagged == "" {
			continue
		}
		r := row{
			name:    cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)),
			aliases: strings.Fields(f.Tag.Get("also")),
			kind:    kindNamed(tagged),
			preset:  f.Tag.Get("default"),
			atStart: f.Tag.Get("read") == "at start",
			field:   []int{i},
		}
		if zero := f.Tag.Get("zero"); zero != "" {
			r.kind = zeroIs(r.kind, zero)
		}
		table = append(table, r)
	}
	return table
}

// set sets the field of a *rule.Params or a *Params.
func (r *row) set(to, value any) {
	f := reflect.ValueOf(to).Elem().FieldByIndex(r.field)
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Uint8 { // the index of a word
		v = v.Convert(f.Type())
	}
	f.Set(v)
	if p, ok := to.(*rule.Params); ok {
		onlyOne(p, r.name)
	}
}

// onlyOne is for nice and priority: of these two, the later in the file is in force.
func onlyOne(p *rule.Params, name string) {
	switch name {
	case "nice":
		p.Priority, p.PrioritySet = 0, false
	case "priority":
		p.Nice, p.PrioritySet = 0, true
	}
}

// value returns the value of the field.
func (r *row) value(of any) any { return reflect.ValueOf(of).Elem().FieldByIndex(r.field).Interface() }

// find returns the row with this name or alias, ignoring case, or nil.
func find(table []row, name string) *row {
	for i := range table {
		same := func(known string) bool { return strings.EqualFold(known, name) }
		if same(table[i].name) || slices.ContainsFunc(table[i].aliases, same) {
			return &table[i]
		}
	}
	return nil
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)
