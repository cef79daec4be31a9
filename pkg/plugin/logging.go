package plugin

import (
	"flag"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// addVerbosityFlag adds -v. From level 1 on the logs of the Kubernetes and AWS libraries go to stderr. Without -v they
// are discarded, because most of their lines do not concern the user.
func addVerbosityFlag(flags *pflag.FlagSet, errOut io.Writer) {
	private := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(private)
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.Must(private.Set("stderrthreshold", "FATAL")) // klog would write errors to the process's stderr otherwise
	level := private.Lookup("v")
	flags.VarP(&verbosity{Value: level.Value, errOut: errOut}, "v", "v", "Log level of the Kubernetes and AWS libraries on stderr, 0 to 10")
}

// verbosity is klog's level flag. It enables the log when the level is above 0.
type verbosity struct {
	flag.Value
	errOut io.Writer
}

// Set implements pflag.Value.
func (v *verbosity) Set(text string) error {
	const most = 10
	if level, err := strconv.Atoi(text); err == nil && (level < 0 || level > most) {
		return fmt.Errorf("%d is not a level from 0 to %d", level, most)
	}
	if err := v.Value.Set(text); err != nil {
		return err
	}
	if text != "0" {
		klog.SetOutput(v.errOut)
	}
	return nil
}

// Type implements pflag.Value.
func (v *verbosity) Type() string { return "level" }
