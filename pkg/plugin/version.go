package plugin

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
)

// version is set by the linker in releases. "go install" sets no version here, so the module's version is used.
var version string

func currentVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// makeUserAgent returns the user agent for API servers and their audit logs: NAME/VERSION (OS/ARCH).
func makeUserAgent() string {
	return fmt.Sprintf("kubectl-nodeupgrade/%s (%s/%s)", currentVersion(), runtime.GOOS, runtime.GOARCH)
}

func newVersionCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  rejectArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(checkFormat(f.format), f.rejectIgnoredFlags(cmd, &commandLine{})); err != nil {
				return usageError(err)
			}
			info := &report.Version{Version: currentVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			info.TypeMeta, _ = report.NewMeta("Version", "")
			return f.printObject(info, []string{info.Version}, func(w io.Writer, _ report.Options) error {
				return writeLines(w, []string{describeVersion()})
			})
		},
	}
}

// describeVersion returns the version for people, with the Go version and the platform.
func describeVersion() string {
	return fmt.Sprintf("kubectl-nodeupgrade %s (%s %s/%s)", currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func rejectArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("%s takes no arguments; got %s", cmd.Name(), strings.Join(args, ", ")))
}
