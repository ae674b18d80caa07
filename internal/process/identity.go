package process

// The identity of a directory, which two programs on one machine can compare.

import "fmt"

// Identity returns device and inode of a directory, "2049:131073", or "-" if it cannot be
// looked at.
func Identity(dir string) string {
	d, err := FindDirectory(dir)
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%d:%d", d.dev, d.ino)
}
