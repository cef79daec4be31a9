package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// TestErrorsOfDeniedRecordsHaveARemedy checks that a user who may not read or write records is told to ask
// for a role.
func TestErrorsOfDeniedRecordsHaveARemedy(t *testing.T) {
	for _, denied := range []string{http.MethodGet, http.MethodPut} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var object any = corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: ObjectName(testGroup), Namespace: "kube-system"}, Data: map[string]string{keyRecord: `{"run":"r1"}`}}
			w.Header().Set("Content-Type", "application/json")
			if r.Method == denied {
				w.WriteHeader(http.StatusForbidden)
				object = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "it is forbidden"}
			}
			_ = json.NewEncoder(w).Encode(object) // if this fails, the client reports it
		}))
		defer server.Close()
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		store := NewStore(client, "kube-system", testGroup)
		got := map[string]error{"writing a request to ConfigMap": store.StoreRequest(t.Context(), record.Asked{Verb: record.VerbPause, Run: "r1"})}
		if denied == http.MethodGet {
			_, got["reading the upgrade's record"] = store.LoadRecord(t.Context())
			_, _, got["listing the records of upgrades"] = LoadRecords(t.Context(), client, "kube-system")
		}
		for doing, err := range got {
			if err == nil || !strings.HasPrefix(err.Error(), doing) || !strings.HasSuffix(err.Error(), "it is forbidden: ask for a role that allows it (see docs/permissions.md)") {
				t.Errorf("%s is denied, %s: got error %v", denied, doing, err)
			}
		}
	}
}
