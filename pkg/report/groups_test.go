package report

import (
	"slices"
	"testing"
)

func TestOnlyChangedGroupsAreDescribed(t *testing.T) {
	group := func(name, phase string, outdated *int) NodeGroup {
		g := NodeGroup{Nodes: 3, Outdated: outdated, Phase: phase}
		g.Name = name
		return g
	}
	list := func(groups ...NodeGroup) *NodeGroupList { return NewList("NodeGroupList", groups) }
	refused := group("a", "", new(3))
	refused.Refusal = "no room"
	cases := map[string]struct {
		before, now *NodeGroupList
		want        []string
	}{
		"nothing":            {list(group("a", "upgrade", new(2))), list(group("a", "upgrade", new(2))), nil},
		"fewer outdated":     {list(group("a", "upgrade", new(2))), list(group("a", "upgrade", new(1))), []string{"a: 3 nodes, 1 outdated, phase upgrade"}},
		"outdated unknown":   {list(group("a", "", new(2))), list(group("a", "", nil)), []string{"a: 3 nodes, outdated not known"}},
		"another phase":      {list(group("a", "", new(3)), group("b", "", new(0))), list(group("a", "setup", new(3)), group("b", "", new(0))), []string{"a: 3 nodes, 3 outdated, phase setup"}},
		"refused":            {list(group("a", "", new(3))), list(refused), []string{"a: 3 nodes, 3 outdated, refused: no room"}},
		"one more, one less": {list(group("a", "", new(0))), list(group("b", "", new(0))), []string{"b: 3 nodes, 0 outdated", "a is no longer listed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := DescribeGroupChanges(c.before, c.now); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLinesAreCutToTerminalSize(t *testing.T) {
	lines := []string{"one", "two and more", "three"}
	cases := map[string]struct {
		width, height int
		want          []string
	}{
		"all":          {20, 3, lines},
		"narrow":       {5, 3, []string{"one", "two …", "three"}},
		"low":          {60, 2, []string{"one", "and 2 more lines: this terminal has too few rows"}},
		"not even one": {60, 0, []string{"and 3 more lines: this terminal has too few rows"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := FitLines(slices.Clone(lines), c.width, c.height); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
