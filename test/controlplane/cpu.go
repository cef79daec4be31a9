package controlplane

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userTick is the unit of the times in /proc, USER_HZ of a second, which is 100 wherever Go runs on Linux.
const userTick = time.Second / 100

// CPU is how much CPU time, in user and in system mode, each program of the cluster has used so far, by its name, as
// "kube-apiserver". One that has ended is left out, and where the system has no /proc as Linux has it, each of them is.
func (c *Cluster) CPU() map[string]time.Duration {
	used := map[string]time.Duration{}
	for _, p := range c.processes {
		if !p.running() { // otherwise its number may be another's by now
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

// cpuTime is the sum of utime and stime, the 14th and the 15th field of /proc/PID/stat (proc_pid_stat(5)). Fields are
// counted from behind the program's name, the 2nd, which may hold anything but a later parenthesis.
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
