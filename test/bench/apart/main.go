// Command apart runs a command and writes its time, CPU time and memory to a file, as JSON. It must be a small program, because a process
// on Linux inherits the largest resident size of its parent (fs/exec.c, exec_mmap). A large parent would falsify the measured memory.
//
//	apart FILE COMMAND [ARGUMENT...]
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: apart FILE COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "apart:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(file string, command []string) (code int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	state := cmd.ProcessState
	if state == nil {
		return 0, err
	}
	figures := map[string]int64{"took": int64(took), "cpu": int64(state.UserTime() + state.SystemTime())}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		figures["mib"] = usage.Maxrss >> 10
	}
	text, err := json.Marshal(figures)
	if err != nil {
		return 0, err
	}
	return state.ExitCode(), os.WriteFile(file, text, 0o600)
}
