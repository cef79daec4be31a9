package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fencePattern   = regexp.MustCompile("(?ms)^```.*?^```")
	codePattern    = regexp.MustCompile("`[^`\n]*`")
	anchorPattern  = regexp.MustCompile(`<a id="([^"]+)">`)
)

// anchorOf returns the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(linkPattern.ReplaceAllString(heading, "]")) {
		switch {
		case r == ' ' || r == '-':
			b.WriteRune('-')
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// anchorsOf returns the anchors of a page. Equal headings are numbered.
func anchorsOf(page string) map[string]bool {
	anchors, counts := map[string]bool{}, map[string]int{}
	for _, match := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(page, ""), -1) {
		anchor := anchorOf(match[1])
		if n := counts[anchor]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", anchor, n)] = true
		} else {
			anchors[anchor] = true
		}
		counts[anchor]++
	}
	for _, match := range anchorPattern.FindAllStringSubmatch(page, -1) {
		anchors[match[1]] = true
	}
	return anchors
}

// linkFaults lists the links of a page that have no target. pages contains the text of each Markdown file by its path. exists reports
// whether another file exists.
func linkFaults(name string, pages map[string]string, exists func(string) bool) []string {
	var faults []string
	text := codePattern.ReplaceAllString(fencePattern.ReplaceAllString(pages[name], ""), "")
	for _, match := range linkPattern.FindAllStringSubmatch(text, -1) {
		link := match[1]
		if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
			continue
		}
		path, anchor, hasAnchor := strings.Cut(link, "#")
		target := name
		if path != "" {
			target = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
		}
		page, isPage := pages[target]
		switch {
		case !isPage && !exists(target):
			faults = append(faults, fmt.Sprintf("%s: %s: there is no such file", name, link))
		case hasAnchor && isPage && !anchorsOf(page)[anchor]:
			faults = append(faults, fmt.Sprintf("%s: %s: the page has no such heading", name, link))
		}
	}
	return faults
}

// TestLinksOfPagesHaveTargets checks that each link from a page to another file or heading of the repository has a target.
func TestLinksOfPagesHaveTargets(t *testing.T) {
	top, pages := repoRoot(t), map[string]string{}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && name != "." && entry.Name() != ".github" || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		pages[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(top, filepath.FromSlash(name)))
		return err == nil
	}
	for name := range pages {
		reportFaults(t, linkFaults(name, pages, exists))
	}
	if len(pages) < 40 {
		t.Errorf("%d pages were found", len(pages))
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"to a heading":               {"# A b: `c`?\n[x](#a-b-c)", ""},
		"to a heading of another":    {"[x](q.md#which-one)", ""},
		"to the second of two":       {"# A\n# A\n[x](#a-1)", ""},
		"to a file":                  {"[x](f.yaml)", ""},
		"to the world":               {"[x](https://kubernetes.io/#a)", ""},
		"in code":                    {"`[x](gone.md)`\n```\n[x](gone.md)\n```\n", ""},
		"to a file that is gone":     {"[x](gone.md)", "there is no such file"},
		"to a heading that is gone":  {"[x](q.md#that-one)", "the page has no such heading"},
		"to a heading in a block":    {"```\n# A\n```\n[x](#a)", "the page has no such heading"},
		"to a heading of the same":   {"# A\n[x](#b)", "the page has no such heading"},
		"out of the folder and back": {"[x](../d/q.md)", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pages := map[string]string{"d/p.md": c.text, "d/q.md": "# Which one?\n"}
			checkFaults(t, linkFaults("d/p.md", pages, func(name string) bool { return name == "d/f.yaml" }), c.want)
		})
	}
}
