package config

// Reload: which parameters a reload cannot change.

import "reflect"

const atNextStart = " has changed, which takes effect at the next start"

// NotReloaded returns a warning for each parameter that a reload of this file cannot
// change, and that is not as it was when the scheduler started. The warning of a parameter
// that the file does not set any more names no line.
func (f *File) NotReloaded(started *File) (all []Warning) {
	for i := range params {
		r := &params[i]
		if !r.atStart || reflect.DeepEqual(r.value(&started.Params), r.value(&f.Params)) {
			continue
		}
		place, set := f.setParams[r.name]
		if !set {
			place = Place{File: f.Name}
		}
		all = append(all, Warning{place, "PARAM" + r.name + atNextStart})
	}
	sortByPlace(all)
	return all
}
