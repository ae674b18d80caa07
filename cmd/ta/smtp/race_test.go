//go:build race

package main

// raced: the race detector takes several times the memory.
const raced = true
