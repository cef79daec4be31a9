package controlplane

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// parentDir is an environment variable. If it is set, this test binary is the parent process of TestProcessIsKilledWithItsParent.
const parentDir = "CONTROLPLANE_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentDir); dir != "" {
		os.Exit(runAsParent(dir))
	}
	os.Exit(m.Run())
}

// runAsParent starts a process, prints its PID and waits for it. The test kills this parent before the started process
// exits.
func runAsParent(dir string) (exitCode int) {
	p, err := startProcess(dir, "/bin/sleep", []string{"1000"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(p.pid)
	<-p.done
	return 1
}

func TestProcessIsKilledWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentDir+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child := strings.TrimSpace(line)
	if !isProcessRunning(child) {
		t.Fatalf("child %q is not running", child)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // the error is about the kill
	deadline := time.After(30 * time.Second)
	for isProcessRunning(child) {
		select {
		case <-deadline:
			t.Fatal("the child outlived its parent by 30 s")
		case <-time.After(pollInterval):
		}
	}
}

// isProcessRunning reports whether a process exists and is not a zombie.
func isProcessRunning(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	// "42 (sleep) S 1 …": the state follows the name, which may contain blanks and parentheses.
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
