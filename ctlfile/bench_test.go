package ctlfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	typical, err := os.ReadFile("testdata/router/dirhash0/01-single-smtp.ctl")
	if err != nil {
		b.Fatal(err)
	}
	benchParse(b, "typical", typical)
	for _, n := range []int{100, 10_000, 1_000_000} {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, "r           smtp h%d.example u%d@h%d.example 65534\nN NOTIFY=FAILURE\n", i%50, i, i%50)
		}
		benchParse(b, fmt.Sprint(n), []byte(aFile(lines.String())))
	}
}

func benchParse(b *testing.B, name string, data []byte) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Parse(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSwap(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "7"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteString(worked); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, step := range [][2]Tag{{Open, Locked}, {Locked, Open}} {
			if done, err := Swap(int(file.Fd()), 109, step[0], step[1], 4711); !done || err != nil {
				b.Fatal(done, err)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	d := someContents()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}
