package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/controlplane"
)

// busyLimit is the CPU load of the machine, from 0 to 1, above which measured times are too long.
const busyLimit = 0.7

// load contains the CPU times that the control plane's programs and the machine have used so far.
type load struct {
	cpus map[string]time.Duration
	// busy and all are the machine's CPU time in ticks; 0 if it is unknown.
	busy, all float64
}

func readLoad(c *controlplane.Cluster) load {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		stat = nil // other systems have none
	}
	l := load{cpus: c.CPU()}
	l.busy, l.all = parseMachineTime(string(stat))
	return l
}

// parseMachineTime sums the first line of /proc/stat (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq and steal. It ignores
// the later fields, which are parts of user and nice. Stolen time counts as busy, because the benchmark cannot use it.
func parseMachineTime(stat string) (busy, all float64) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0
	}
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0
		}
		all += ticks
		if i != 3 && i != 4 {
			busy += ticks
		}
	}
	return busy, all
}

// since returns the CPU time of each program since before was measured, and the machine's load from 0 to 1. It omits programs that
// one of the two loads does not contain. busy is negative if it is unknown.
func (l load) since(before load) (cpus map[string]time.Duration, busy float64) {
	cpus = map[string]time.Duration{}
	for name, used := range l.cpus {
		if earlier, known := before.cpus[name]; known {
			cpus[name] = used - earlier
		}
	}
	if before.all == 0 || l.all <= before.all {
		return cpus, -1
	}
	return cpus, min(1, max(0, (l.busy-before.busy)/(l.all-before.all))) // the kernel's sums may decrease a little
}

// writeLoad writes the CPU times during each way. It also lists the ways during which the machine was too busy.
func (r *result) writeLoad(w io.Writer) error {
	fmt.Fprint(w, "\nCPU time during each way\n\n")
	var rows [][]string
	for i := range r.figures {
		f := &r.figures[i]
		row := []string{fmt.Sprintf("%d %s", i+1, f.way), formatSeconds(f.cpu)}
		for _, program := range []string{"kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok"} {
			row = append(row, formatCPUTime(f.cpus, program))
		}
		rows = append(rows, append(row, formatPercent(f.busy)))
	}
	header := []string{"WAY", "TOOL", "API-SERVER", "ETCD", "CONTROLLERS", "SCHEDULER", "KWOK", "MACHINE-BUSY"}
	if err := report.WriteTable(w, report.Plain, header, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(r.figures, func(f figure) bool { return f.busy > busyLimit }) {
		fmt.Fprintln(w)
	}
	for i := range r.figures {
		if busy := r.figures[i].busy; busy > busyLimit {
			fmt.Fprintf(w, "%d: the machine was %.0f %% busy: the times are too long\n", i+1, 100*busy)
		}
	}
	return nil
}

func formatCPUTime(cpus map[string]time.Duration, program string) string {
	if t, known := cpus[program]; known {
		return formatSeconds(t)
	}
	return "-"
}

func formatPercent(share float64) string {
	if share < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
