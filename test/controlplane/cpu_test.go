package controlplane

import (
	"os/exec"
	"runtime"
	"testing"
	"time"
)

func TestProcessCPUTimeIsReadFromStat(t *testing.T) {
	for name, test := range map[string]struct {
		stat  string
		want  time.Duration
		known bool
	}{
		"user and system":         {"42 (etcd) S 1 42 42 0 -1 4194304 100 0 1 0 250 50 7 9 20 0 1\n", 3 * time.Second, true},
		"a name that looks ahead": {"42 (a) S 1 (b) R 1 42 42 0 -1 4194304 100 0 1 0 3 4 7 9 20 0 1\n", 70 * time.Millisecond, true},
		"cut off":                 {"42 (etcd) S 1 42 42 0 -1 4194304 100 0 1 0 250", 0, false},
		"no number":               {"42 (etcd) S 1 42 42 0 -1 4194304 100 0 1 0 250 x 7\n", 0, false},
		"nothing":                 {"", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, known := cpuTime(test.stat); got != test.want || known != test.known {
				t.Errorf("got %s, %t; want %s, %t", got, known, test.want, test.known)
			}
		})
	}
}

func TestCPUTimeOfRunningProcessesIsListed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	c := &Cluster{}
	t.Cleanup(func() { killAll(c.processes) })
	for _, line := range [][]string{{"sh", "-c", "while :; do :; done"}, {"sleep", "1000"}, {"true"}} {
		path, err := exec.LookPath(line[0])
		if err != nil {
			t.Skip(err)
		}
		p, err := startProcess(t.TempDir(), path, line[1:])
		if err != nil {
			t.Fatal(err)
		}
		c.processes = append(c.processes, p)
	}
	<-c.processes[2].done
	deadline := time.After(30 * time.Second)
	for c.CPU()["sh"] == 0 {
		select {
		case <-deadline:
			t.Fatal("a busy program used no CPU time in 30 s")
		case <-time.After(pollInterval):
		}
	}
	used := c.CPU()
	if asleep, known := used["sleep"]; !known || asleep > time.Second {
		t.Errorf("a program that sleeps used %s (known: %t)", asleep, known)
	}
	if ended, known := used["true"]; known {
		t.Errorf("a program that has exited is listed with %s", ended)
	}
}
