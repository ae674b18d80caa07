// Ministore runs a miniredis as the store of the cluster, for the demonstration on a
// machine without a Redis server. It listens at the address that is its argument until
// it is killed.
package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ministore host:port")
		os.Exit(2)
	}
	if err := miniredis.NewMiniRedis().StartAddr(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "ministore:", err)
		os.Exit(1)
	}
	select {}
}
