package awscloud

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"pgregory.net/rapid"
)

// parseInstances returns one instance for each word "zone[version][marks]" of the text. For example, a2p is a protected
// instance of template version 2 in zone a. The mark n stands for a pending instance that AZRebalance launched. The id of an
// instance is its word and its index.
func parseInstances(text string) []instance {
	var out []instance
	for n, word := range strings.Fields(text) {
		i := instance{
			id: fmt.Sprintf("%d:%s", n, word), number: n, zone: word[:1], weight: 1,
			spec: launchSpec{born: int(word[1] - '0')}, state: at.LifecycleStateInService,
		}
		i.protected = strings.Contains(word, "p")
		if strings.Contains(word, "n") {
			i.rebalance, i.state = true, at.LifecycleStatePending
		}
		if strings.Contains(word, "w") {
			i.weight = 2
		}
		out = append(out, i)
	}
	return out
}

func ids(members []instance) string {
	var out []string
	for _, i := range members {
		out = append(out, i.id)
	}
	return strings.Join(out, " ")
}

func TestInstanceIsLaunchedInZoneWithFewestInstances(t *testing.T) {
	for name, tc := range map[string]struct {
		members string
		blocked map[string]bool
		want    string
	}{
		"the zone with the fewest":              {"a1 a1 b1 c1 c1", nil, "b"},
		"the first of equals":                   {"a1 b1 c1", nil, "a"},
		"an empty zone":                         {"a1 b1", nil, "c"},
		"a blocked zone is passed over":         {"a1 b1", map[string]bool{"c": true}, "a"},
		"no zone when all are blocked":          {"", map[string]bool{"a": true, "b": true, "c": true}, ""},
		"a zone is not blocked that once was":   {"a1 b1", map[string]bool{"c": false}, "c"},
		"rebalancing instances are counted too": {"a1 b1 c1 an", nil, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := chooseLaunchZone([]string{"a", "b", "c"}, countByZone(parseInstances(tc.members)), tc.blocked)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tc.want)
			}
		})
	}
}

func TestShrinkingGroupChoosesInstancesToTerminate(t *testing.T) {
	for name, tc := range map[string]struct {
		members string
		desired int
		want    string
	}{
		"nothing too many":                          {"a1 b1 c1", 3, ""},
		"nothing when some are missing":             {"a1", 3, ""},
		"the fullest zone first":                    {"a2 a2 b1", 2, "0:a2"},
		"the oldest template in equal zones":        {"a2 b1 c2", 2, "1:b1"},
		"a launch configuration before a template":  {"a1 b0 c1", 2, "1:b0"},
		"the longest running of equals":             {"a1 b1 c1", 2, "0:a1"},
		"protected instances stay":                  {"a1p a1 b1", 2, "1:a1"},
		"a protected zone is passed over":           {"a1p a1p b1", 2, "2:b1"},
		"nothing when all are protected":            {"a1p b1p", 1, ""},
		"zones even out on the way down":            {"a2 a2 a2 b1", 2, "0:a2 1:a2"},
		"a rebalancing launch is extra":             {"a1 a1 a1 bn", 3, ""},
		"weights are not undercut":                  {"a1w b1w", 3, ""},
		"weights come down":                         {"a1w b1w", 2, "0:a1w"},
		"the surplus beside a rebalancing instance": {"a1 a1 a1 bn", 2, "0:a1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ids(surplusInstances(parseInstances(tc.members), tc.desired)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRebalanceMovesFromFullestToEmptiestZone(t *testing.T) {
	for name, tc := range map[string]struct {
		members string
		blocked map[string]bool
		want    string
	}{
		"even":                              {"a1 b1 c1", nil, ""},
		"one more is even enough":           {"a1 a1 b1 c1", nil, ""},
		"from the fullest to the emptiest":  {"a1 a1 a1 b1 b1 c1", nil, "a>c"},
		"not from a zone that is protected": {"a1p a1p a1p b1 b1 b1", nil, "b>c"},
		"not when all are protected":        {"a1p a1p b1p", nil, ""},
		"not to a zone without capacity":    {"a1 a1 a1 b1", map[string]bool{"c": true}, "a>b"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if from, to, ok := chooseRebalanceZones([]string{"a", "b", "c"}, parseInstances(tc.members), tc.blocked); ok {
				got = from + ">" + to
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestShrinkingGroupKeepsProtectedInstances checks three rules for a shrinking group. It never goes below its desired capacity.
// It never terminates a protected instance. It never terminates an instance in a zone while a fuller zone has an unprotected
// instance.
func TestShrinkingGroupKeepsProtectedInstances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abc][0-3]p?w?`)
		members := parseInstances(strings.Join(rapid.SliceOfN(word, 0, 12).Draw(t, "members"), " "))
		desired := rapid.IntRange(0, 14).Draw(t, "desired")
		gone := surplusInstances(members, desired)
		if len(gone) > 0 && totalUnits(members)-totalUnits(gone) < desired {
			t.Fatalf("%s leaves %d of %d units", ids(gone), totalUnits(members)-totalUnits(gone), desired)
		}
		left := slices.Clone(members)
		for _, g := range gone {
			if g.protected {
				t.Fatalf("%s is protected", g.id)
			}
			n := countByZone(left)
			for _, i := range left {
				if !i.protected && n[i.zone] > n[g.zone] {
					t.Fatalf("%s goes before %s of a fuller zone", g.id, i.id)
				}
			}
			left = slices.DeleteFunc(left, func(i instance) bool { return i.id == g.id })
		}
	})
}

func TestMaximumSizeGrowsDuringZoneRebalance(t *testing.T) {
	for maximum, want := range map[int]int{1: 2, 9: 10, 20: 22, 35: 38} {
		if got := maxDuringRebalance(maximum); got != want {
			t.Errorf("of %d: got %d, want %d", maximum, got, want)
		}
	}
}

// lifetime lists the states of an instance over time, each with the second at which it began.
func lifetime(i instance, o Options, from time.Time, change map[int]func(instance, time.Time) instance) string {
	var out []string
	last := ""
	for s := range 60 {
		now := from.Add(time.Duration(s) * time.Second)
		if f := change[s]; f != nil {
			i = f(i, now)
		}
		i = advanceInstance(i, o, now)
		word := fmt.Sprintf("%s/%s", i.state, powerState(i.power).Name)
		if i.joined && !i.nodeGone {
			word += "+node"
		}
		if i.unhealthy {
			word += "+unhealthy"
		}
		if i.left {
			word += "+left"
		}
		if i.forgotten {
			word += "+forgotten"
		}
		if word != last {
			out = append(out, fmt.Sprintf("%d:%s", s, word))
			last = word
		}
	}
	return strings.Join(out, " ")
}

func TestInstanceLifecycleAdvancesWithTime(t *testing.T) {
	o := Options{Boot: 2 * time.Second, Terminate: 3 * time.Second, NodeGoneAfter: 4 * time.Second, TerminatedVisible: 10 * time.Second, HealthCheck: 2 * time.Second}
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	boot := instance{state: at.LifecycleStatePending, powerUntil: from.Add(o.Boot)}
	takeOutAfter := func(hook time.Duration) func(instance, time.Time) instance {
		return func(i instance, now time.Time) instance { return beginTermination(i, hook, o, now) }
	}
	kill := func(i instance, now time.Time) instance { return shutDown(i, o, now) }
	for name, tc := range map[string]struct {
		change map[int]func(instance, time.Time) instance
		want   string
	}{
		"boots": {nil, "0:Pending/pending 2:InService/running+node"},
		"terminates": {
			map[int]func(instance, time.Time) instance{5: takeOutAfter(0)},
			"0:Pending/pending 2:InService/running+node 5:Terminating/shutting-down+node 8:Terminating/terminated+node+left 12:Terminating/terminated+left 22:Terminating/terminated+left+forgotten",
		},
		"terminates after a hook, its kubelet running meanwhile": {
			map[int]func(instance, time.Time) instance{5: takeOutAfter(10 * time.Second)},
			"0:Pending/pending 2:InService/running+node 5:Terminating:Wait/running+node 15:Terminating:Proceed/shutting-down+node 18:Terminating:Proceed/terminated+node+left 22:Terminating:Proceed/terminated+left 32:Terminating:Proceed/terminated+left+forgotten",
		},
		"terminates before it has a node": {
			map[int]func(instance, time.Time) instance{1: takeOutAfter(0)},
			"0:Pending/pending 1:Terminating/shutting-down 4:Terminating/terminated+left 18:Terminating/terminated+left+forgotten",
		},
		"is killed and stays in its group until that takes it out": {
			map[int]func(instance, time.Time) instance{5: kill, 20: takeOutAfter(10 * time.Second)},
			"0:Pending/pending 2:InService/running+node 5:InService/shutting-down+node 7:InService/shutting-down+node+unhealthy 8:InService/terminated+node+unhealthy 12:InService/terminated+unhealthy 20:Terminating/terminated+unhealthy+left 22:Terminating/terminated+unhealthy+left+forgotten",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lifetime(boot, o, from, tc.change); got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestNodeLabelsAreReadFromUserData(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"a nodeadm config": {NodeadmConfig("shop", "a=1", "b/c=2"), "map[a:1 b/c:2]"},
		"the bootstrap script": {
			"#!/bin/bash\n/etc/eks/bootstrap.sh shop --kubelet-extra-args '--node-labels=a=1,b=2 --max-pods=17'\n", "map[a:1 b:2]",
		},
		"an escaped argument":   {`"--node-labels=a=1\n"`, "map[a:1]"},
		"nothing of the sort":   {"#!/bin/sh\necho hello\n", "map[]"},
		"a label with no value": {"--node-labels=a=,b", "map[a:]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := TemplateVersion{UserData: tc.data}.data()
			if got := fmt.Sprint(nodeLabels(d.userData)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestZoneIDIsDerivedFromZoneName(t *testing.T) {
	for zone, want := range map[string]string{"us-east-1a": "use1-az1", "eu-central-1c": "euc1-az3", "us-gov-west-1b": "usgw1-az2"} {
		if got := zoneID(zone); got != want {
			t.Errorf("of %s: got %s, want %s", zone, got, want)
		}
	}
}

func TestServiceAndRegionAreReadFromSignature(t *testing.T) {
	for name, tc := range map[string]struct{ header, want string }{
		"a signature":         {"AWS4-HMAC-SHA256 Credential=AKID/20261121/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=00", "ec2 us-east-1 true"},
		"none":                {"", "  false"},
		"another scheme":      {"Bearer abc", "  false"},
		"a scope cut short":   {"AWS4-HMAC-SHA256 Credential=AKID/20261121/us-east-1", "  false"},
		"a scope of no place": {"AWS4-HMAC-SHA256 Credential=AKID/20261121//ec2/aws4_request", "  false"},
	} {
		t.Run(name, func(t *testing.T) {
			service, region, ok := credentialScope(tc.header)
			if got := fmt.Sprint(service, " ", region, " ", ok); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLaunchWithTokenInProgressIsRejected(t *testing.T) {
	r := newRegion(Options{}.withDefaults(), newHostQueue(nil, 0), time.Now())
	r.images["ami-1"] = image{id: "ami-1"}
	r.templates["lt-1"] = &template{id: "lt-1", defaultVersion: 1, versions: []templateVersion{{number: 1, data: templateData{image: "ami-1"}}}}
	g, _, err := r.newGroup(GroupSpec{Name: "g", Zones: []string{"us-east-1a"}, Max: 2, Template: TemplateRef{ID: "lt-1"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.groups["g"] = g
	in := &as.LaunchInstancesInput{AutoScalingGroupName: aws.String("g"), RequestedCapacity: aws.Int32(1), ClientToken: aws.String("t")}
	begin := func() string {
		_, err := r.beginLaunch(in)
		return fmt.Sprint(err)
	}
	if got := begin(); got != "<nil>" {
		t.Fatalf("the first call: %s", got)
	}
	if got := begin(); !strings.HasPrefix(got, "IdempotentCallInProgress: ") {
		t.Errorf("the second call while the first is in progress: %s", got)
	}
	if _, err := r.finishLaunch(in, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := begin(); got != "<nil>" {
		t.Errorf("the third call after the first: %s", got)
	}
}
