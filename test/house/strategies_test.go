package house

import (
	"go/ast"
	"slices"
	"testing"
)

// strategyAdvisers lists the files outside pkg/upgrade that may name a strategy, because they advise or compare strategies.
func strategyAdvisers() []string {
	return []string{"pkg/preflight/fit.go", "pkg/preflight/check.go", "pkg/plugin/compare.go"}
}

// strategyNames lists the names of strategies in pkg/upgrade/record.
func strategyNames() []string {
	return []string{"Surge", "BlueGreen", "AutoscaledBlueGreen", "ShortLived", "Delegated"}
}

// strategyFaults lists where a file uses a strategy's name instead of its traits. Such code would treat a new strategy wrongly.
func strategyFaults(src source) (faults []string) {
	if src.isTest() || !isUnder(src.path, "pkg") || isUnder(src.path, "pkg/upgrade") || slices.Contains(strategyAdvisers(), src.path) {
		return nil
	}
	names := importNames(src)
	ast.Inspect(src.file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(strategyNames(), s.Sel.Name) {
			if pkg, ok := s.X.(*ast.Ident); ok && names[pkg.Name] == module+"/pkg/upgrade/record" {
				faults = append(faults, src.fault(s.Pos(), "ask for the Traits of the strategy, not for %s", s.Sel.Name))
			}
		}
		return true
	})
	return faults
}

func TestCodeUsesTraitsInsteadOfStrategyNames(t *testing.T) {
	for _, src := range sources(t) {
		reportFaults(t, strategyFaults(src))
	}
}

func TestComparisonsWithStrategyNamesAreFound(t *testing.T) {
	text := "package a\nimport \"" + module + "/pkg/upgrade/record\"\nvar _ = record.ShortLived\nvar _ = record.Force\n"
	for name, fault := range map[string]string{
		"pkg/report/a.go":      "a.go:3: ask for the Traits of the strategy, not for ShortLived",
		"pkg/report/a_test.go": "", "pkg/upgrade/a.go": "", "pkg/preflight/fit.go": "",
	} {
		src, err := parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		checkFaults(t, strategyFaults(src), fault)
	}
}
