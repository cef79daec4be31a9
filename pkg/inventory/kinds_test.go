package inventory_test

import (
	"reflect"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// TestEachKindHasItsOwnObjectList stores one object of each kind. Each kind must have its own list in Objects, and each list a kind. No two
// kinds may be the same.
func TestEachKindHasItsOwnObjectList(t *testing.T) {
	objects, seen := &inventory.Objects{}, map[string]bool{}
	for _, kind := range inventory.Kinds() {
		object := kind.New()
		kind.Keep(objects, object)
		if name := reflect.TypeOf(object).Elem().Name(); name != kind.Name {
			t.Errorf("%s: a new %s is a %s", kind.Resource, kind.Name, name)
		}
		for _, key := range []string{kind.Resource, kind.APIVersion + "/" + kind.Name, "short " + kind.Short} {
			if seen[key] && key != "short " {
				t.Errorf("two kinds are %s", key)
			}
			seen[key] = true
		}
		if kind.Required&kind.Optional != 0 || kind.Required|kind.Optional == 0 {
			t.Errorf("%s: required for the uses %b, optional for %b", kind.Resource, kind.Required, kind.Optional)
		}
	}
	fields := reflect.ValueOf(objects).Elem()
	for i := range fields.NumField() {
		name, list := fields.Type().Field(i).Name, fields.Field(i)
		if list.Kind() == reflect.Slice && name != "Unread" && list.Len() != 1 {
			t.Errorf("%s has %d objects, want that of one kind", name, list.Len())
		}
	}
}

func TestKindsHaveGroupAndAPIPath(t *testing.T) {
	cases := map[string]struct{ group, path string }{
		"nodes":               {"", "/api/v1"},
		"deployments":         {"apps", "/apis/apps/v1"},
		"targetgroupbindings": {"elbv2.k8s.aws", "/apis/elbv2.k8s.aws/v1beta1"},
	}
	for resource, want := range cases {
		if kind := inventory.FindKind(resource); kind.Group() != want.group || kind.Path() != want.path {
			t.Errorf("%s: group %q and path %q, want %+v", resource, kind.Group(), kind.Path(), want)
		}
	}
	if kind := inventory.FindKind("secrets"); kind.Resource != "" {
		t.Errorf("found %q", kind.Resource)
	}
}
