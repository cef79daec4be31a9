package plugin

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serveWithoutServices serves twoGroups to a user who may do everything except list services.
func serveWithoutServices(t *testing.T) {
	t.Helper()
	s := twoGroups()
	s.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			return false
		}
		question, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		answer(w, http.StatusCreated, authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: !bytes.Contains(question, []byte("services"))},
		})
		return true
	}
	s.serve(t)
}

const noServices = "you may not list services: the last ready pod behind a Service is evicted like any other"

// TestPlanListsOmittedParts checks the table and the JSON of a plan.
func TestPlanListsOmittedParts(t *testing.T) {
	serveWithoutServices(t)
	for format, says := range map[string]string{"table": "Left out    " + noServices, "json": `"leftOut": [`} {
		stdout, stderr, code := invoke(t, "blue", "--current=image=v2", "--dry-run", "-o", format)
		if code != 0 || strings.Count(stdout, noServices) != 1 || !strings.Contains(stdout, says) {
			t.Errorf("%s ended with %d: %s%s, want it to say %q", format, code, stdout, stderr, says)
		}
	}
	twoGroups().serve(t)
	if stdout, _, _ := invoke(t, "blue", "--current=image=v2", "--dry-run"); strings.Contains(stdout, "Left out") {
		t.Errorf("a user with all rights: %s", stdout)
	}
}

// TestStartListsOmittedParts checks that the notes come before anything is changed. An abort omits nothing.
func TestStartListsOmittedParts(t *testing.T) {
	for m, want := range map[mode]int{modeUpgrade: 1, modeResume: 1, modeRollback: 1, modeAbort: 0} {
		t.Run(string(m), func(t *testing.T) {
			serveWithoutServices(t)
			var errOut bytes.Buffer
			s := openBlue(t.Context(), t, &errOut, "--current=image=v2", "--yes")
			g, err := s.loadGroup(t.Context(), "blue", modeUpgrade)
			if err != nil {
				t.Fatal(err)
			}
			e := &execution{s: s, g: g, mode: m, display: s.line.openDisplay("blue", nil)}
			e.announceStart(t.Context())
			e.display.Close()
			if got := errOut.String(); strings.Count(got, noServices) != want || !strings.Contains(got, "run ") {
				t.Errorf("got %q, want %d lines on services", got, want)
			}
		})
	}
}
