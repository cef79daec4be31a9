package aws

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newNode(providerID, region string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if region != "" {
		n.Labels[corev1.LabelTopologyRegion] = region
	}
	return n
}

func TestProviderIDIsParsedIntoZoneAndInstance(t *testing.T) {
	cases := map[string]struct {
		zone, instance string
		ok             bool
	}{
		"aws:///us-east-1a/i-0123456789abcdef0":               {"us-east-1a", "i-0123456789abcdef0", true},
		"aws://us-east-1a/i-0123456789abcdef0":                {"us-east-1a", "i-0123456789abcdef0", true},
		"aws:///us-east-1a/i-01234567":                        {"us-east-1a", "i-01234567", true},
		"aws:///us-east-1-bos-1a/i-0123456789abcdef0":         {"us-east-1-bos-1a", "i-0123456789abcdef0", true},
		"aws:///i-0123456789abcdef0":                          {"", "i-0123456789abcdef0", true},
		"aws:////i-0123456789abcdef0":                         {"", "i-0123456789abcdef0", true},
		"aws:///us-east-1a/9f2d-fargate-ip-10-0-1-2.internal": {},
		"aws:///us-east-1a/i-":                                {},
		"aws:///us-east-1a/i-0123456789abcdef0/extra":         {},
		"i-0123456789abcdef0":                                 {},
		"eks-hybrid:///us-east-1/cluster/node":                {},
		"gce://project/us-east1-b/i-0123456789abcdef0":        {},
		"aws:": {},
		"":     {},
	}
	for id, want := range cases {
		t.Run(id, func(t *testing.T) {
			zone, instance, ok := ParseProviderID(id)
			if zone != want.zone || instance != want.instance || ok != want.ok {
				t.Errorf("got %q, %q, %v, want %+v", zone, instance, ok, want)
			}
		})
	}
}

func FuzzParseProviderID(f *testing.F) {
	for _, id := range []string{"aws:///us-east-1a/i-0123456789abcdef0", "aws:////i-01234567", "aws://a/b/i-01234567", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		zone, instance, ok := ParseProviderID(id)
		switch {
		case !ok && (zone != "" || instance != ""):
			t.Errorf("%q is not an instance and yet %q in %q", id, instance, zone)
		case ok && !strings.HasSuffix(id, "/"+instance):
			t.Errorf("%q does not end in %q", id, instance)
		case ok && strings.Contains(zone, "/"):
			t.Errorf("%q: zone %q holds a slash", id, zone)
		case ok:
			if z, i, again := ParseProviderID("aws:///" + zone + "/" + instance); !again || z != zone || i != instance {
				t.Errorf("%q: %q and %q do not make an ID again", id, zone, instance)
			}
		}
	})
}

// FuzzRegionOfZone checks that only a node's zone determines its region.
func FuzzRegionOfZone(f *testing.F) {
	for _, zone := range []string{"us-east-1a", "us-gov-west-1b", "us-east-1-bos-1a", "us-east-1-wl1-bos-wlz-1", "eusc-de-east-1a", "a", ""} {
		f.Add(zone)
	}
	f.Fuzz(func(t *testing.T, zone string) {
		region := RegionOf([]*corev1.Node{newNode("aws:///"+zone+"/i-0123456789abcdef0", "")})
		if !strings.HasPrefix(zone, region) {
			t.Errorf("zone %q is said to be in region %q", zone, region)
		}
		if again := RegionOf([]*corev1.Node{newNode("aws:///"+region+"a/i-0123456789abcdef0", "")}); region != "" && again != region {
			t.Errorf("region %q of zone %q has a zone a in region %q", region, zone, again)
		}
	})
}

func TestRegionIsReadFromNodes(t *testing.T) {
	const id = "/i-0123456789abcdef0"
	cases := map[string]struct {
		nodes []*corev1.Node
		want  string
	}{
		"zone":                       {[]*corev1.Node{newNode("aws:///us-east-1a"+id, "")}, "us-east-1"},
		"zone of GovCloud":           {[]*corev1.Node{newNode("aws:///us-gov-west-1b"+id, "")}, "us-gov-west-1"},
		"zone of a long name":        {[]*corev1.Node{newNode("aws:///eusc-de-east-1a"+id, "")}, "eusc-de-east-1"},
		"local zone":                 {[]*corev1.Node{newNode("aws:///us-east-1-bos-1a"+id, "")}, "us-east-1"},
		"Wavelength zone":            {[]*corev1.Node{newNode("aws:///us-east-1-wl1-bos-wlz-1"+id, "")}, "us-east-1"},
		"label before zone":          {[]*corev1.Node{newNode("aws:///us-east-1a"+id, "us-east-2")}, "us-east-2"},
		"label of a later node":      {[]*corev1.Node{newNode("aws:///us-east-1a"+id, ""), newNode("aws:///us-east-1a"+id, "us-east-2")}, "us-east-2"},
		"no zone, no label":          {[]*corev1.Node{newNode("aws:///"+id, "")}, ""},
		"only other clouds' regions": {[]*corev1.Node{newNode("gce://p/us-east1-b/n", "us-east1")}, ""},
		"no nodes":                   {nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RegionOf(c.nodes); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlyInstancesInRegionAreListed(t *testing.T) {
	here, there := newNode("aws:///us-east-1a/i-00000001", ""), newNode("aws:///us-west-2-lax-1a/i-00000002", "")
	if got, err := instancesIn("us-east-1", []*corev1.Node{there, here, newNode("", "")}); err != nil || !slices.Equal(got, []string{"i-00000001"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := instancesIn("us-east-1", []*corev1.Node{newNode("kind://x", "")}); err != nil || got != nil {
		t.Errorf("nodes of no cloud: got %v, %v", got, err)
	}
	_, err := instancesIn("us-east-1", []*corev1.Node{there})
	if err == nil || !strings.Contains(err.Error(), "set AWS_REGION=us-west-2") {
		t.Errorf("all nodes elsewhere: got %v, want the region to set", err)
	}
}
