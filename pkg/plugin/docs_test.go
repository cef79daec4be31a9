package plugin

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// pagesForUsers returns the README and the docs, without the pages about the code.
func pagesForUsers(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"README.md": readmeText(t)}
	err := filepath.WalkDir("../../docs", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		if entry.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		pages[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range pages {
		for _, folder := range []string{"docs/decisions/", "docs/internals/", "docs/reference/"} {
			if strings.HasPrefix(name, folder) {
				delete(pages, name)
			}
		}
	}
	return pages
}

var (
	// shownCommand matches a command in a block of code or between backquotes.
	shownCommand = regexp.MustCompile("(?m)(?:^\\s*(?:\\$ )?|`)(kubectl nodeupgrade(?: [^`\n]*)?)")
	shownFlag    = regexp.MustCompile("`(--[a-z][a-z-]*)")
)

// TestDocsShowCommandsThatParse checks that the commands on a page have only verbs and flags that exist.
func TestDocsShowCommandsThatParse(t *testing.T) {
	kubeconfig(t, nowhere)
	seen := 0
	for name, text := range pagesForUsers(t) {
		for _, match := range shownCommand.FindAllStringSubmatch(text, -1) {
			seen++
			if err := parseShown(match[1]); err != nil {
				t.Errorf("%s shows %q: %v", name, match[1], err)
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d commands were found", seen)
	}
}

// parseShown parses a command as the root would, up to a pipe, a redirection or a comment.
func parseShown(text string) error {
	words := strings.Fields(text)[2:]
	if end := slices.IndexFunc(words, func(w string) bool {
		return slices.Contains([]string{"|", ">", ">>", "#", "||", "&&", ";", "…", "..."}, w)
	}); end >= 0 {
		words = words[:end]
	}
	for i := range words {
		words[i] = strings.Trim(strings.TrimSuffix(words[i], ";"), `"'`)
	}
	root := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	cmd, args, err := root.Find(words)
	if err != nil {
		return err
	}
	return parseFlagsOf(cmd, args)
}

func parseFlagsOf(cmd *cobra.Command, args []string) error {
	err := cmd.ParseFlags(args)
	if level := cmd.Flags().Lookup("v"); level != nil && level.Changed {
		defer func() { _ = level.Value.Set("0") }() // klog's level applies to the whole process
	}
	if err != nil && (strings.Contains(err.Error(), "unknown") || strings.Contains(err.Error(), "no such")) {
		return err
	}
	return nil // values such as GROUP or N are for the reader to fill in
}

// TestDocsNameFlagsThatExist checks that a flag in backquotes belongs to this program or to another program that the line
// names.
func TestDocsNameFlagsThatExist(t *testing.T) {
	known := map[string]bool{"--help": true, "--manifest-url": true, "--node-labels": true} // of cobra, krew and the kubelet
	root := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	note := func(f *pflag.Flag) { known["--"+f.Name] = true }
	for _, cmd := range append(root.Commands(), root) {
		cmd.LocalFlags().VisitAll(note)
		cmd.InheritedFlags().VisitAll(note)
	}
	for name, text := range pagesForUsers(t) {
		if name == "docs/comparison.md" {
			continue // which is about other programs, too
		}
		for _, match := range shownFlag.FindAllStringSubmatch(text, -1) {
			if !known[match[1]] {
				t.Errorf("%s names %s, which there is not", name, match[1])
			}
		}
	}
}
