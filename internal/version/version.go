// Package version holds the version number that every program prints.
package version

import "runtime/debug"

// Number is the version of all programs in this tree (CHANGELOG.md).
const Number = "1.0.0"

// Line is what a program prints for --version: its name, the number and, where
// the build recorded it, the revision of the source.
func Line(program string) string {
	line := program + " " + Number
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return line
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			line += " (" + s.Value[:min(12, len(s.Value))] + ")"
		}
	}
	return line
}
