// Command house prints figures of the product code of a checkout: sizes, names, comments, types,
// and how the files of each package use one another. Package measure says what each one counts.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/report"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/house/measure"
)

func main() {
	dir := flag.String("dir", ".", "The top of the checkout to measure")
	flag.Parse()
	if err := run(os.Stdout, *dir); err != nil {
		fmt.Fprintf(os.Stderr, "house: measuring %s: %v\n", *dir, err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir string) error {
	packages, err := measure.Load(os.DirFS(dir))
	if err != nil {
		return err
	}
	if err := report.WriteTable(w, report.Plain, []string{"figure", "value"}, measure.Figures(packages)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return report.WriteTable(w, report.Plain, measure.RoomsHeader(), measure.Rooms(packages))
}
