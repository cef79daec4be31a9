// Command now prints for each line that it reads what its wall clock says, in seconds since 1970, and how many have passed by its
// monotonic clock since it was started. Each time it waits for a timer first, which the runtime asks for the time on a stack of its own.
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
