package main

import (
	"os"
	"strings"
	"sync"
	"unsafe"
)

// takeTitle moves the arguments away from where the system shows them from,
// and returns what writes there instead: the title that ps shows. There is no
// more room than the command line had; the rest of a text is cut off.
//
// The strings of os.Args are the bytes that the kernel laid out, one after the
// other, each with a NUL; nothing else may refer to them any more.
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
