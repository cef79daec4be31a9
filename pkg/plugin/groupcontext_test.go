package plugin

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/preflight"
)

// surveyor is a provider whose survey returns the given data or error.
type surveyor struct {
	cloud.Provider
	survey cloud.Survey
	err    error
	// asked is called with each Survey.
	asked func()
}

// Survey implements cloud.Surveyor.
func (h *surveyor) Survey(context.Context, *nodegroup.Group) (cloud.Survey, error) {
	h.asked()
	return h.survey, h.err
}

// planWithSurveyor reads the outdated group of twoGroups as --dry-run does, with the surveyor around its provider.
func planWithSurveyor(ctx context.Context, t *testing.T, h *surveyor) (*planning, error) {
	t.Helper()
	twoGroups().serve(t)
	s := openBlue(ctx, t, io.Discard, "--current=image=v2", "--dry-run")
	h.Provider, s.main = s.main, h
	g, err := s.loadGroup(ctx, "blue", modeUpgrade)
	return &planning{groupContext: g, s: s}, err
}

// TestPlanExplainsMissingCloudData checks that a plan uses the cloud's data and explains which part is missing.
func TestPlanExplainsMissingCloudData(t *testing.T) {
	const lacks = "some data of the cloud is missing: "
	past := cloud.Survey{Terminations: []time.Duration{50 * time.Second}}
	cases := map[string]struct {
		survey     cloud.Survey
		err        error
		says, also string
	}{
		"all is told":   {past, nil, "a machine is gone 50s after", ""},
		"some is told":  {past, errors.New("launches are secret"), "a machine is gone 50s after", lacks + "launches are secret"},
		"nothing is":    {cloud.Survey{}, errors.New("all is secret"), "a machine is gone 30s after", lacks + "all is secret"},
		"there is none": {cloud.Survey{}, nil, "a machine is gone 30s after", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, err := planWithSurveyor(t.Context(), t, &surveyor{survey: c.survey, err: c.err, asked: func() {}})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.makePlan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			assumed := strings.Join(plan.Assumptions, "\n")
			if !strings.Contains(assumed, c.says) || !strings.Contains(assumed, c.also) || strings.Contains(assumed, lacks) != (c.also != "") {
				t.Errorf("assumes\n%s\nwant %q and %q", assumed, c.says, c.also)
			}
		})
	}
}

// TestPlanExplainsUnknownTarget checks a plan if it is unknown whether the target exists.
func TestPlanExplainsUnknownTarget(t *testing.T) {
	p, err := planWithSurveyor(t.Context(), t, &surveyor{asked: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	p.group.Unread = []string{"whether there is a release 1.33.3-20261001 is not known"}
	plan, err := p.makePlan(t.Context())
	if err != nil || !slices.Contains(plan.Unread, p.group.Unread[0]) {
		t.Errorf("got %+v, %v", plan, err)
	}
}

// TestPlanFindsMissingAddresses checks the finding for added nodes without free addresses in the cloud.
func TestPlanFindsMissingAddresses(t *testing.T) {
	full := cloud.Survey{Subnets: []nodegroup.Subnet{{Zone: "a", CIDR: netip.MustParsePrefix("10.0.0.0/19")}}}
	p, err := planWithSurveyor(t.Context(), t, &surveyor{survey: full, asked: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	p.request.Surge = 1
	for skipped, want := range map[string]bool{"PDB001": true, "NG004": false} {
		p.s.line.skipChecks = []string{skipped}
		plan, err := p.makePlan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found := slices.ContainsFunc(plan.Findings, func(f preflight.Finding) bool { return f.Rule == "NG004" }); found != want {
			t.Errorf("without %s it finds %v", skipped, plan.Findings)
		}
	}
}

// TestPlanFailsIfCloudReadIsInterrupted checks that there is no plan after an interrupt, whatever the cloud answers.
func TestPlanFailsIfCloudReadIsInterrupted(t *testing.T) {
	for name, answer := range map[string]error{"an error": errors.New("no answer in time"), "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			p, err := planWithSurveyor(ctx, t, &surveyor{err: answer, asked: interrupt})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.makePlan(ctx)
			if plan != nil || exitCodeOf(err) != exitInterrupted || !strings.HasPrefix(err.Error(), `reading group "blue" from the cloud: `) {
				t.Errorf("got %+v, error %v", plan, err)
			}
		})
	}
}
