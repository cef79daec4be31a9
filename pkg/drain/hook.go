package drain

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// longestSleep is the time that an infinite sleep counts as.
const longestSleep = 24 * time.Hour

// HookSleep returns how long a container's hook sleeps: the sum of the sleep commands in it. It is 0 without a hook.
func HookSleep(hook *corev1.LifecycleHandler) (sum time.Duration) {
	switch {
	case hook == nil:
		return 0
	case hook.Sleep != nil:
		return time.Duration(hook.Sleep.Seconds) * time.Second
	case hook.Exec == nil:
		return 0
	}
	for _, words := range splitCommands(hook.Exec.Command) {
		took, _ := commandSleep(words)
		sum += took
	}
	return min(sum, longestSleep)
}

// PreStopServingTime returns how long a container continues to serve while its preStop hook runs: the sleeps before the
// first command that stops it. closer is that command. known is false for hooks that run other programs or make requests,
// because these may take any time.
func PreStopServingTime(hook *corev1.LifecycleHandler) (serving time.Duration, closer string, known bool) {
	if hook == nil || hook.Exec == nil {
		return HookSleep(hook), "", hook == nil || hook.Sleep != nil
	}
	for _, words := range splitCommands(hook.Exec.Command) {
		took, isSleep := commandSleep(words)
		switch {
		case isSleep:
			serving += took
		case stopsListening(words):
			return serving, strings.Join(words, " "), true
		case !slices.Contains([]string{"echo", "printf", "true", ":", "touch", "date", "sync", "exit", "set"}, words[0]):
			return serving, "", false
		}
	}
	return serving, "", true
}

// ShellScriptIndex returns the index of the script in a shell command line, or 0 if the command is no shell.
func ShellScriptIndex(command []string) int {
	if len(command) == 0 || !slices.Contains([]string{"sh", "bash", "ash", "dash"}, path.Base(command[0])) {
		return 0
	}
	return 1 + slices.IndexFunc(command[1:], func(word string) bool { return !strings.HasPrefix(word, "-") })
}

// splitCommands returns the words of each command that a hook runs, directly or in a shell.
func splitCommands(command []string) (commands [][]string) {
	script := ShellScriptIndex(command)
	if script == 0 {
		if len(command) > 0 {
			commands = [][]string{command}
		}
		return commands
	}
	for part := range strings.FieldsFuncSeq(command[script], func(r rune) bool { return strings.ContainsRune(";&|()\n", r) }) {
		words := strings.FieldsFunc(part, func(r rune) bool { return strings.ContainsRune(" \t\"'$", r) })
		for len(words) > 0 && slices.Contains([]string{"exec", "do", "then", "else", "{"}, words[0]) {
			words = words[1:]
		}
		if len(words) > 0 {
			commands = append(commands, words)
		}
	}
	return commands
}

// commandSleep returns how long a sleep command takes, which is the sum of its arguments. isSleep is false for other
// commands.
func commandSleep(words []string) (sum time.Duration, isSleep bool) {
	if path.Base(words[0]) != "sleep" || len(words) < 2 {
		return 0, false
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, ">") || strings.HasPrefix(word, "2>") {
			break
		}
		took, known := parseSleep(word)
		if !known {
			return 0, false
		}
		sum += took
	}
	return min(sum, longestSleep), true
}

// parseSleep parses an argument of sleep: a number of seconds, a number with one of the units s, m, h and d, or infinity
// (coreutils, sleep.c).
func parseSleep(word string) (time.Duration, bool) {
	if word == "infinity" || word == "inf" {
		return longestSleep, true
	}
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	unit, number := time.Second, word
	if n := len(word) - 1; n > 0 && units[word[n:]] > 0 {
		unit, number = units[word[n:]], word[:n]
	}
	count, err := strconv.ParseFloat(number, 64)
	if err != nil || !(count >= 0) {
		return 0, false
	}
	return time.Duration(min(count*float64(unit), float64(longestSleep))), true
}

// stopsListening reports whether a command makes a server stop listening: nginx and Apache by their own commands, any
// other server by a signal.
func stopsListening(words []string) bool {
	has := func(wanted ...string) bool {
		return slices.ContainsFunc(words[1:], func(word string) bool { return slices.Contains(wanted, word) })
	}
	switch path.Base(words[0]) {
	case "nginx":
		return has("-s") && has("quit", "stop")
	case "httpd", "apache2", "apachectl", "apache2ctl":
		return has("stop", "graceful-stop")
	case "kill", "pkill", "killall":
		signals := slices.DeleteFunc(slices.Clone(words[1:]), func(word string) bool { return !strings.HasPrefix(word, "-") })
		return len(signals) == 0 || has("-TERM", "-SIGTERM", "-15", "-QUIT", "-SIGQUIT", "-3", "-INT", "-SIGINT", "-2", "TERM", "SIGTERM", "QUIT", "SIGQUIT", "INT")
	default:
		return false
	}
}
