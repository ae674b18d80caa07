package ctlfile

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSpoolID(t *testing.T) {
	at := time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC)
	equal(t, "whole second", SpoolID(258367, at), "S258367AbTCLWiT")
	equal(t, "nanoseconds", SpoolID(258367, at.Add(123456789)), "S258367AbTCLWiTHW8wV")
	equal(t, "elsewhere", SpoolID(258367, at.In(time.FixedZone("", -5*3600))), "S258367AbTCLWiT")
	// Longer than the 30 bytes that the old programs reserved for it.
	equal(t, "longest", SpoolID(math.MaxUint64, at.Add(999999999)), "S18446744073709551615AbTCLWiT7ioj-")
}

// The router put the identity into the Received line, to the nanosecond; the
// date behind it has the seconds.
func TestSpoolIDsOfTheRouter(t *testing.T) {
	for _, name := range []string{"01-single-smtp", "08-quoted-localpart", "11-local-only-noenv", "13-deliverby"} {
		text, err := os.ReadFile("testdata/router/dirhash0/" + name + ".ctl")
		if err != nil {
			t.Fatal(err)
		}
		f := mustParse(t, string(text))
		received, _, _ := strings.Cut(strings.ReplaceAll(f.Headers(0), "\n\t", " "), "\n")
		_, id, _ := strings.Cut(received, " id ")
		id, date, _ := strings.Cut(id, ";")
		at, err := time.Parse(time.RFC1123Z, strings.TrimSpace(date))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := Number(f.Name)
		if want := SpoolID(n, at); !strings.HasPrefix(id, want) || len(id) != len(want)+5 {
			t.Errorf("%s: %s, want %s and five more", name, id, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for name, want := range map[string]uint64{
		"258367": 258367, "15582-7": 15582, "7-etrn": 7, "18446744073709551615": math.MaxUint64,
		"0": 0, "00": 0, "": 0, "a1": 0, ".7": 0, "18446744073709551616": 0, "-1": 0, "+1": 0,
	} {
		n, ok := Number(name)
		if ok != (want > 0) || ok && n != want {
			t.Errorf("Number(%q) = %d, %v", name, n, ok)
		}
	}
}

func TestHashDir(t *testing.T) {
	for _, c := range []struct {
		n      uint64
		levels int
		want   string
	}{
		{258367, 0, ""}, {258367, 1, "F/"}, {258367, 2, "F/F/"}, {258367, 3, "F/F/"}, {258367, -1, ""},
		{15582, 1, "I/"}, {15582, 2, "B/I/"}, {1, 2, "A/B/"}, {25, 1, "Z/"}, {26, 2, "B/A/"}, {675, 2, "Z/Z/"}, {676, 2, "A/A/"},
	} {
		equal(t, strconv.FormatUint(c.n, 10), HashDir(c.n, c.levels), c.want)
	}
}

// The manifest says where the router put each file.
func TestHashDirsOfTheRouter(t *testing.T) {
	for levels, dir := range map[int]string{0: "dirhash0", 2: "dirhash2"} {
		manifest, err := os.ReadFile("testdata/router/" + dir + "/MANIFEST")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(manifest)) {
			_, path, _ := strings.Cut(line, "transport path: transport/")
			path, _, _ = strings.Cut(path, " ")
			name := path[strings.LastIndex(path, "/")+1:]
			n, _ := Number(name)
			equal(t, "path", HashDir(n, levels)+name, path)
		}
	}
}
