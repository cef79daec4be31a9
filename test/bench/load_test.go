package main

import (
	"bytes"
	"maps"
	"testing"
	"time"
)

func TestCPUTimePerComponentIsTabulated(t *testing.T) {
	cpus := map[string]time.Duration{"kube-apiserver": 9 * second, "etcd": 3 * second, "kube-controller-manager": 2 * second, "kube-scheduler": second, "kwok": 4 * second}
	without := maps.Clone(cpus)
	delete(without, "kwok")
	figureOf := func(way string, cpus map[string]time.Duration, busy float64) figure {
		return figure{way: way, ended: ended{cpu: second / 2}, cpus: cpus, busy: busy}
	}
	const head = "\nCPU time during each way\n\nWAY TOOL API-SERVER ETCD CONTROLLERS SCHEDULER KWOK MACHINE-BUSY\n"
	cases := map[string]struct {
		figures []figure
		want    string
	}{
		"all is known":         {[]figure{figureOf(toolName, cpus, 0.4)}, "1 kubectl nodeupgrade 0.5s 9.0s 3.0s 2.0s 1.0s 4.0s 40%\n"},
		"a program is missing": {[]figure{figureOf(toolName, without, 0.4)}, "1 kubectl nodeupgrade 0.5s 9.0s 3.0s 2.0s 1.0s - 40%\n"},
		"nothing is known":     {[]figure{figureOf(toolName, nil, -1)}, "1 kubectl nodeupgrade 0.5s - - - - - -\n"},
		"as busy as it may be": {[]figure{figureOf(toolName, cpus, busyLimit)}, "1 kubectl nodeupgrade 0.5s 9.0s 3.0s 2.0s 1.0s 4.0s 70%\n"},
		"one of two on a busy machine": {
			[]figure{figureOf(oneByOne.way, cpus, 0.4), figureOf(toolName, cpus, 0.93)},
			`1 kubectl drain, one by one 0.5s 9.0s 3.0s 2.0s 1.0s 4.0s 40%
2 kubectl nodeupgrade 0.5s 9.0s 3.0s 2.0s 1.0s 4.0s 93%

2: the machine was 93 % busy: the times are too long
`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			if err := (&result{figures: c.figures}).writeLoad(&text); err != nil {
				t.Fatal(err)
			}
			if got := collapseSpaces(text.String()); got != head+c.want {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func TestMachineCPUTimeIsReadFromProcStat(t *testing.T) {
	cases := map[string]struct {
		stat      string
		busy, all float64
	}{
		"a guest is counted once": {"cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 1 1 1 1 1 1 1 1 1\n", 81, 531},
		"cut off":                 {"cpu  10 20 30 400", 0, 0},
		"another line":            {"intr 1 2 3 4 5 6 7 8 9\n", 0, 0},
		"no number":               {"cpu  10 20 30 x 50 6 7 8 9 1\n", 0, 0},
		"no /proc":                {"", 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if busy, all := parseMachineTime(c.stat); busy != c.busy || all != c.all {
				t.Errorf("busy %g of %g, want %g of %g", busy, all, c.busy, c.all)
			}
		})
	}
}

func TestCPULoadIsMeasuredBetweenTwoMoments(t *testing.T) {
	before := load{map[string]time.Duration{"etcd": second, "kwok": second}, 100, 1000}
	cases := map[string]struct {
		before, after load
		cpus          map[string]time.Duration
		busy          float64
	}{
		"of what is known at both moments": {before, load{map[string]time.Duration{"etcd": 4 * second, "kube-scheduler": second}, 175, 1100}, map[string]time.Duration{"etcd": 3 * second}, 0.75},
		"a machine that is not known":      {load{}, load{}, nil, -1},
		"no time went by":                  {before, before, map[string]time.Duration{"etcd": 0, "kwok": 0}, -1},
		"a sum that stepped back":          {before, load{nil, 99, 1100}, nil, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cpus, busy := c.after.since(c.before)
			if !maps.Equal(cpus, c.cpus) || busy != c.busy {
				t.Errorf("%v and %g, want %v and %g", cpus, busy, c.cpus, c.busy)
			}
		})
	}
}
