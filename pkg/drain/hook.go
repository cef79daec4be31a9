package drain

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// longestSleep is what a sleep without an end counts as.
const longestSleep = 24 * time.Hour

// SleepIn returns how long a container's hook sleeps, as far as it says so: the sum of the sleeps of
// its commands. It is 0 for no hook.
func SleepIn(hook *corev1.LifecycleHandler) (sum time.Duration) {
	switch {
	case hook == nil:
		return 0
	case hook.Sleep != nil:
		return time.Duration(hook.Sleep.Seconds) * time.Second
	case hook.Exec == nil:
		return 0
	}
	for _, words := range splitCommands(hook.Exec.Command) {
		took, _ := sleepOf(words)
		sum += took
	}
	return min(sum, longestSleep)
}

// ServingTime returns how long a container serves on while its preStop hook runs: the sleeps before
// the first command that has it stop, which closer is then. It is not known of a hook that runs other
// programs, or that asks over the network: those may take any time.
func ServingTime(hook *corev1.LifecycleHandler) (serving time.Duration, closer string, known bool) {
	if hook == nil || hook.Exec == nil {
		return SleepIn(hook), "", hook == nil || hook.Sleep != nil
	}
	for _, words := range splitCommands(hook.Exec.Command) {
		took, isSleep := sleepOf(words)
		switch {
		case isSleep:
			serving += took
		case isClosing(words):
			return serving, strings.Join(words, " "), true
		case !slices.Contains([]string{"echo", "printf", "true", ":", "touch", "date", "sync", "exit", "set"}, words[0]):
			return serving, "", false
		}
	}
	return serving, "", true
}

// ScriptIn returns which word of a command is the script that a shell runs, 0 where none is.
func ScriptIn(command []string) int {
	if len(command) == 0 || !slices.Contains([]string{"sh", "bash", "ash", "dash"}, path.Base(command[0])) {
		return 0
	}
	return 1 + slices.IndexFunc(command[1:], func(word string) bool { return !strings.HasPrefix(word, "-") })
}

// splitCommands returns the words of each command that a hook runs, by itself or in a shell.
func splitCommands(command []string) (commands [][]string) {
	script := ScriptIn(command)
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

// sleepOf returns how long a command sleeps if it is sleep, which adds its arguments up.
func sleepOf(words []string) (sum time.Duration, isSleep bool) {
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

// parseSleep reads an argument of sleep: a number, of seconds or with one of the units s, m, h and d, or
// infinity (coreutils, sleep.c).
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

// isClosing reports whether a command has a server stop listening: nginx and Apache by themselves, any
// other by a signal.
func isClosing(words []string) bool {
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
