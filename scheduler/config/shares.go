package config

// The file of PARAMshares: the weights of sources, senders and domains.

import (
	"fmt"
	"strconv"
	"strings"
)

// maxWeight is the highest weight.
const maxWeight = 1000

// Shares is a file of weights. A line has a source, a sender or a domain, whose case
// does not matter, and its weight; "#" begins a comment; the last line for a name applies.
type Shares struct {
	File    string         // its path
	Weights map[string]int // by name, in lower case; others have 1
}

// sharesFile is the path of a file of weights.
var sharesFile = kindOf("path", readShares)

func readShares(text string, r *reader) (Shares, error) {
	file := r.expand(text)
	data, err := readFile(file)
	weights, wrong := parseShares(file, data)
	r.errors = append(r.errors, wrong...)
	return Shares{file, weights}, err
}

func parseShares(file string, data []byte) (weights map[string]int, wrong Errors) {
	weights = make(map[string]int)
	line := 0
	for content := range strings.Lines(string(data)) {
		line++
		content, _, _ = strings.Cut(content, "#")
		fields := strings.Fields(content)
		if len(fields) == 0 {
			continue
		}
		weight := 0
		if len(fields) == 2 {
			weight, _ = strconv.Atoi(fields[1])
		}
		if weight < 1 || weight > maxWeight {
			wrong = append(wrong, Error{
				Place{file, line, 1},
				fmt.Sprintf("a line must have a source, a sender or a domain and its weight, a number from 1 to %d", maxWeight),
			})
			continue
		}
		weights[strings.ToLower(fields[0])] = weight
	}
	return weights, wrong
}
