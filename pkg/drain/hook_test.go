package drain_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/drain"
)

// TestSleepAndServingTimesAreReadFromPreStopHook: the serving time is how long the container serves during the hook, if that is known.
func TestSleepAndServingTimesAreReadFromPreStopHook(t *testing.T) {
	exec := func(words ...string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: words}}
	}
	shell := func(script string) *corev1.LifecycleHandler { return exec("/bin/sh", "-c", script) }
	const s = time.Second
	cases := map[string]struct {
		hook    *corev1.LifecycleHandler
		sleeps  time.Duration
		serves  time.Duration
		closer  string
		unknown bool
	}{
		"none":                              {},
		"a sleep of the kubelet's":          {hook: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 15}}, sleeps: 15 * s, serves: 15 * s},
		"a request":                         {hook: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/drain"}}, unknown: true},
		"a second":                          {hook: exec("sleep", "1"), sleeps: s, serves: s},
		"by its path":                       {hook: exec("/usr/bin/sleep", "5"), sleeps: 5 * s, serves: 5 * s},
		"seconds":                           {hook: exec("sleep", "20s"), sleeps: 20 * s, serves: 20 * s},
		"a minute":                          {hook: exec("sleep", "1m"), sleeps: time.Minute, serves: time.Minute},
		"a fraction of an hour":             {hook: exec("sleep", "0.5h"), sleeps: 30 * time.Minute, serves: 30 * time.Minute},
		"a day":                             {hook: exec("sleep", "1d"), sleeps: 24 * time.Hour, serves: 24 * time.Hour},
		"more than a day":                   {hook: exec("sleep", "9d"), sleeps: 24 * time.Hour, serves: 24 * time.Hour},
		"for ever":                          {hook: exec("sleep", "infinity"), sleeps: 24 * time.Hour, serves: 24 * time.Hour},
		"its arguments add up":              {hook: exec("sleep", "1m", "30s"), sleeps: 90 * s, serves: 90 * s},
		"in a shell":                        {hook: shell("sleep 40"), sleeps: 40 * s, serves: 40 * s},
		"in a shell with more options":      {hook: exec("bash", "-e", "-c", "exec sleep '40'"), sleeps: 40 * s, serves: 40 * s},
		"two sleeps":                        {hook: shell("sleep 20; sleep 15 && echo done"), sleeps: 35 * s, serves: 35 * s},
		"with a program between":            {hook: shell("sleep 20; /drain; sleep 20"), sleeps: 40 * s, serves: 20 * s, unknown: true},
		"of a variable":                     {hook: shell("sleep $DELAY"), unknown: true},
		"of less than none":                 {hook: exec("sleep", "-5"), unknown: true},
		"of no number":                      {hook: exec("sleep", "NaN"), unknown: true},
		"nginx quits":                       {hook: exec("/usr/sbin/nginx", "-s", "quit"), closer: "/usr/sbin/nginx -s quit"},
		"nginx quits after a sleep":         {hook: shell("sleep 15; nginx -s quit; sleep 5"), sleeps: 20 * s, serves: 15 * s, closer: "nginx -s quit"},
		"nginx is reloaded":                 {hook: shell("nginx -s reload"), unknown: true},
		"Apache stops gracefully":           {hook: exec("apachectl", "-k", "graceful-stop"), closer: "apachectl -k graceful-stop"},
		"a signal":                          {hook: shell("kill -QUIT 1"), closer: "kill -QUIT 1"},
		"a signal to a process by its file": {hook: shell("kill -TERM $(cat /run/web.pid)"), closer: "kill -TERM"},
		"the usual signal":                  {hook: shell("kill 1"), closer: "kill 1"},
		"another signal":                    {hook: shell("kill -USR1 1; sleep 30"), sleeps: 30 * s, unknown: true},
		"sleep as an argument":              {hook: exec("/opt/stop", "sleep", "5"), unknown: true},
		"nothing but words":                 {hook: shell("echo bye"), serves: 0},
		"an empty script":                   {hook: shell("")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := drain.HookSleep(c.hook); got != c.sleeps {
				t.Errorf("it sleeps %s, want %s", got, c.sleeps)
			}
			serves, closer, known := drain.PreStopServingTime(c.hook)
			if serves != c.serves || closer != c.closer || known == c.unknown {
				t.Errorf("it serves for %s (known: %t) until %q, want %s (%t) until %q", serves, known, closer, c.serves, !c.unknown, c.closer)
			}
		})
	}
}
