package main

import (
	"os"
	"strings"
	"sync"
	"unsafe"
)

// takeTitle returns a function that changes the title of the process, as ps(1) shows
// it (option -s). The title overwrites the command line, so a longer text is cut.
//
// The strings of os.Args are the bytes that the kernel laid out, one string after
// the other, each with a NUL. takeTitle replaces the strings with copies, because
// nothing else may refer to those bytes from then on.
func takeTitle() func(string) {
	var room []byte
	for i, arg := range os.Args {
		start := unsafe.StringData(arg)
		if i > 0 && (len(room) == 0 || start != (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(room)), len(room)))) {
			break
		}
		if i == 0 {
			room = unsafe.Slice(start, len(arg)+1)
			continue
		}
		room = unsafe.Slice(unsafe.SliceData(room), len(room)+len(arg)+1)
	}
	for i, arg := range os.Args {
		os.Args[i] = strings.Clone(arg)
	}
	if len(room) == 0 {
		return func(string) {}
	}
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		n := copy(room[:len(room)-1], "smtp: "+text)
		clear(room[n:])
	}
}
