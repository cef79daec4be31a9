package cloud

import (
	"regexp"
	"sync"
)

// CompileLater returns a function that compiles the regular expression when it is first called. The expressions of
// the providers take 1 ms to compile, and many commands need none of them.
func CompileLater(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
