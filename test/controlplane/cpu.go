package controlplane

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userTick is the unit of the times in /proc: 1/USER_HZ of a second. USER_HZ is 100 on all Linux platforms of Go.
const userTick = time.Second / 100

// CPU returns how much CPU time each program of the cluster has used so far, in user and in system mode, by its name, such as
// "kube-apiserver". It omits programs that have exited. Without Linux's /proc it returns no program.
func (c *Cluster) CPU() map[string]time.Duration {
	used := map[string]time.Duration{}
	for _, p := range c.processes {
		if !p.isRunning() { // its PID may already belong to another process
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
		if err != nil {
			continue
		}
		if t, known := cpuTime(string(stat)); known {
			used[p.name] = t
		}
	}
	return used
}

// cpuTime returns the sum of utime and stime, the 14th and the 15th field of /proc/PID/stat (proc_pid_stat(5)). It counts fields
// after the last parenthesis, because the program's name, the 2nd field, may contain blanks and parentheses.
func cpuTime(stat string) (t time.Duration, known bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, false
		}
		t += time.Duration(ticks) * userTick
	}
	return t, true
}
