package plugin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// days is a duration flag that also accepts days: 7d, 1d12h, 90m.
type days time.Duration

// durationVar adds a duration flag that also accepts days.
func durationVar(flags *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	flags.Var((*days)(p), name, usage)
	if value == 0 {
		flags.Lookup(name).DefValue = "" // help would print "(default 0s)" after a default that depends on other flags
	}
}

// Set implements pflag.Value. It returns an error with examples if the text is not a duration or its number of days is
// negative.
func (d *days) Set(text string) error {
	rest, total := text, time.Duration(0)
	if count, after, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseUint(count, 10, 16)
		if err != nil {
			return durationError(text)
		}
		rest, total = after, time.Duration(n)*24*time.Hour
	}
	if rest != "" || total == 0 && text != "0d" {
		more, err := time.ParseDuration(rest)
		if err != nil || total > 0 && more < 0 {
			return durationError(text)
		}
		total += more
	}
	*d = days(total)
	return nil
}

func durationError(text string) error {
	return fmt.Errorf("%q is not a time: use 90s, 15m, 1h30m or 7d", text)
}

// String implements pflag.Value.
func (d *days) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *days) Type() string { return "duration" }
