package plugin

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// rejectRepeatedFlags makes string flags reject a second, different value. Otherwise the last value would win silently:
// "-l pool=a -l pool=b" would upgrade only b. For durations and numbers the last value wins, as in kubectl.
func rejectRepeatedFlags(cmd *cobra.Command) {
	wrap := func(flag *pflag.Flag) {
		if _, wrapped := flag.Value.(*onceValue); !wrapped && flag.Value.Type() == "string" {
			flag.Value = &onceValue{Value: flag.Value}
		}
	}
	cmd.Flags().VisitAll(wrap)
	cmd.PersistentFlags().VisitAll(wrap)
	for _, child := range cmd.Commands() {
		rejectRepeatedFlags(child)
	}
}

// onceValue is the value of a flag that may be passed once.
type onceValue struct {
	pflag.Value
	given *string
}

// Set implements pflag.Value. It returns an error if the flag has another value already.
func (o *onceValue) Set(value string) error {
	if o.given != nil && *o.given != value {
		return fmt.Errorf("the flag is given twice, as %q and as %q: pass it once", *o.given, value)
	}
	o.given = &value
	return o.Value.Set(value)
}
