// Command now prints two numbers for each line that it reads: its wall clock, in seconds since 1970, and the seconds since its start
// by its monotonic clock. Before each line it waits for a timer, because the runtime then reads the clock on its own stack.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := <-time.After(time.Millisecond)
		fmt.Println(now.Unix(), int64(now.Sub(began).Seconds()))
	}
}
