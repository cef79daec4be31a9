package preflight_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// advised are the flags in remedies and their effect on the settings.
var advised = map[string]func(*upgrade.Settings, string){
	"control-plane":          func(*upgrade.Settings, string) {}, // this flag is no setting of the upgrade
	"max-surge":              func(s *upgrade.Settings, _ string) { s.MaxSurge = &nodegroup.Quantity{N: 3} },
	"settle":                 func(s *upgrade.Settings, _ string) { s.Settle = new(time.Minute) },
	"drain-timeout":          func(s *upgrade.Settings, _ string) { s.DrainTimeout = new(time.Hour) },
	"on-timeout":             func(s *upgrade.Settings, value string) { s.OnTimeout = record.OnTimeout(value) },
	"move":                   func(s *upgrade.Settings, value string) { s.Move = record.Move(value) },
	"respect-do-not-disrupt": func(s *upgrade.Settings, _ string) { s.RespectDoNotDisrupt = true },
	"unmanaged-pods":         func(s *upgrade.Settings, _ string) { s.EvictUnmanaged = true },
	"implicit-budgets":       func(s *upgrade.Settings, _ string) { s.NoImplicitBudgets = true },
	"update-strategy":        func(s *upgrade.Settings, value string) { s.UpdateStrategy = value },
	"strategy":               func(s *upgrade.Settings, value string) { s.Strategy = record.Strategy(value) },
	"update-config":          func(*upgrade.Settings, string) {}, // an option of the cloud's command, like the two below
	"cluster-name":           func(*upgrade.Settings, string) {},
	"nodegroup-name":         func(*upgrade.Settings, string) {},
	"force":                  func(*upgrade.Settings, string) {}, // an option of kubectl
	"previous":               func(*upgrade.Settings, string) {},
}

var flagForm = regexp.MustCompile(`--([a-z-]+)(?:=([a-z0-9]+))?`)

// TestRemediesNameOnlyFlagsThatUpgradeAccepts checks every provider and strategy.
func TestRemediesNameOnlyFlagsThatUpgradeAccepts(t *testing.T) {
	managed := nodegroup.Managed{MaxUnavailable: nodegroup.Quantity{N: 1}, DrainTimeout: 15 * time.Minute, Settle: time.Minute, ChangeWidth: "aws eks update-nodegroup-config --cluster-name=c --nodegroup-name=workers --update-config maxUnavailable=NUMBER"}
	minimal := managed
	minimal.TerminateFirst, minimal.AddFirst = true, "aws eks update-nodegroup-config --cluster-name=c --nodegroup-name=workers --update-config maxUnavailable=1,updateStrategy=DEFAULT"
	ways := map[string]struct {
		settings upgrade.Settings
		change   func(*nodegroup.Group)
	}{
		"surge":      {},
		"no surge":   {settings: upgrade.Settings{MaxSurge: &nodegroup.Quantity{}}},
		"minimal":    {settings: upgrade.Settings{UpdateStrategy: "minimal"}},
		"blue-green": {settings: upgrade.Settings{Strategy: record.BlueGreen}},
		"autoscaled": {settings: upgrade.Settings{Strategy: record.AutoscaledBlueGreen}, change: func(g *nodegroup.Group) { g.Autoscaler.Serves = true }},
		"followed":   {settings: upgrade.Settings{Strategy: record.ShortLived}},
		"EKS":        {change: func(g *nodegroup.Group) { g.Managed = &managed }},
		"EKS first":  {change: func(g *nodegroup.Group) { g.Managed = &minimal }},
		"by labels": {settings: upgrade.Settings{Current: map[string]string{"image": "v2"}}, change: func(g *nodegroup.Group) {
			g.Provider, g.Can, g.Zones = "manual", nodegroup.Capabilities{}, nil
		}},
	}
	files, err := filepath.Glob("testdata/rules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.Contains(file, ".pass") })
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		read := readScene(t, text)
		for name, way := range ways {
			w := *read.World
			w.Group.Wanted = nodegroup.Revision{ID: "2", Name: "workers:2"}
			if way.change != nil {
				way.change(&w.Group)
			}
			settings := way.settings
			settings.BootTimeout = 20 * time.Minute
			outdated := 0
			for i := range w.Members {
				if w.Members[i].Outdated {
					outdated++
				}
			}
			if w.Request, err = settings.ResolveRequest(&w.Group, len(w.Members), outdated); err != nil {
				t.Fatalf("%s: %s: %v", name, file, err)
			}
			scene := preflight.NewScene(&w, read.Facts, read.Objects)
			for _, f := range preflight.Check(scene, preflight.Catalogue(), nil) {
				for _, flag := range flagForm.FindAllStringSubmatchIndex(f.Remedy, -1) {
					seen++
					checkAdvice(t, name+": "+filepath.Base(file)+": "+f.String(), f.Remedy, flag, settings, &w, outdated)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d flags were advised: the test looks at too little", seen)
	}
}

func checkAdvice(t *testing.T, where, remedy string, flag []int, settings upgrade.Settings, w *upgrade.World, outdated int) {
	t.Helper()
	name, value := remedy[flag[2]:flag[3]], ""
	if flag[4] >= 0 {
		value = remedy[flag[4]:flag[5]]
	}
	set, known := advised[name]
	if !known {
		t.Errorf("%s: the test does not know --%s", where, name)
		return
	}
	if strings.HasSuffix(remedy[:flag[0]], "leave ") || strings.HasSuffix(remedy[:flag[0]], "not together with ") { // the remedy names a flag that was passed
		return
	}
	if strings.Contains(remedy, "not together with --update-strategy=minimal") {
		settings.UpdateStrategy = ""
	}
	if name == "on-timeout" && value == string(record.Force) && w.Request.OnTimeout == record.Force {
		t.Errorf("%s: it advises what was passed", where)
	}
	set(&settings, value)
	if _, err := settings.ResolveRequest(&w.Group, len(w.Members), outdated); err != nil {
		t.Errorf("%s\n  is refused: %v", where, err)
	}
}
