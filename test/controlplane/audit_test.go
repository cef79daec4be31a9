package controlplane

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestEventsAreClassified(t *testing.T) {
	for name, test := range map[string]struct {
		line                       string
		mutating, eviction, dryRun bool
	}{
		"a read": {line: `{"verb":"list","requestURI":"/api/v1/pods?limit=500"}`},
		"an eviction": {
			line: `{"verb":"create","requestURI":"/api/v1/namespaces/a/pods/b/eviction",
				"objectRef":{"resource":"pods","subresource":"eviction"},"requestObject":{"deleteOptions":{}}}`,
			mutating: true, eviction: true,
		},
		"an eviction that says in its body that it is a dry run": {
			line: `{"verb":"create","objectRef":{"resource":"pods","subresource":"eviction"},
				"requestObject":{"deleteOptions":{"dryRun":["All"]}}}`,
			mutating: true, eviction: true, dryRun: true,
		},
		"a deletion that says in its body that it is a dry run": {
			line:     `{"verb":"delete","objectRef":{"resource":"pods"},"requestObject":{"dryRun":["All"]}}`,
			mutating: true, dryRun: true,
		},
		"a patch that says in its query that it is a dry run": {
			line:     `{"verb":"patch","requestURI":"/api/v1/nodes/n?dryRun=All&fieldManager=x","requestObject":[{"op":"add"}]}`,
			mutating: true, dryRun: true,
		},
		"a patch whose body is a list": {
			line:     `{"verb":"patch","requestURI":"/api/v1/nodes/n","requestObject":[{"op":"add"}]}`,
			mutating: true,
		},
		"the creation of a pod": {
			line:     `{"verb":"create","objectRef":{"resource":"pods"}}`,
			mutating: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := decodeAudit([]byte(completedEvent(test.line)))
			if err != nil {
				t.Fatal(err)
			}
			e := events[0]
			if e.IsMutating() != test.mutating || e.IsEviction() != test.eviction || e.IsDryRun() != test.dryRun {
				t.Errorf("got mutating %t, eviction %t, dry run %t, want %t, %t, %t",
					e.IsMutating(), e.IsEviction(), e.IsDryRun(), test.mutating, test.eviction, test.dryRun)
			}
		})
	}
}

// completedEvent returns the event on one line, with the stage of an answered request.
func completedEvent(event string) string {
	out := []byte(`{"stage":"ResponseComplete",`)
	for _, b := range []byte(event[1:]) {
		if b != '\n' && b != '\t' {
			out = append(out, b)
		}
	}
	return string(append(out, '\n'))
}

func TestDecodeAuditOmitsOtherEvents(t *testing.T) {
	for name, line := range map[string]string{
		"requests not yet answered": `{"stage":"ResponseStarted","verb":"watch"}`,
		"marks":                     `{"stage":"ResponseComplete","verb":"get","userAgent":"audit-marker/1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			events, err := decodeAudit([]byte(line + "\n"))
			if err != nil || len(events) != 0 {
				t.Errorf("got %v, %v, want nothing", events, err)
			}
		})
	}
}

func TestDecodeAuditRejectsIncompleteLine(t *testing.T) {
	if _, err := decodeAudit([]byte(`{"stage":"Resp`)); err == nil {
		t.Error("an incomplete line was decoded as an event")
	}
}

// testAuditListsEachEventOnce reads the log twice. The second result must contain the old events and the new ones, each once.
func testAuditListsEachEventOnce(t *testing.T, s *space) {
	before := s.auditEvents(t)
	if _, err := s.Client().CoreV1().Namespaces().Get(t.Context(), s.name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	after := s.auditEvents(t)
	seen := map[types.UID]bool{}
	for _, e := range after {
		if seen[e.AuditID] {
			t.Fatalf("%s %s is listed twice", e.Verb, e.RequestURI)
		}
		seen[e.AuditID] = true
	}
	if len(after) <= len(before) {
		t.Errorf("%d events at first, and %d after one more", len(before), len(after))
	}
	for _, e := range before {
		if !seen[e.AuditID] {
			t.Fatalf("%s %s is missing in the second result", e.Verb, e.RequestURI)
		}
	}
}
