package cloud_test

import (
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cloud"
)

// withBalancers is a provider that implements Balancer and no other optional interface.
type withBalancers struct {
	cloud.Provider
	cloud.Balancer
}

func TestOptionalInterfacesOfProvidersAreFound(t *testing.T) {
	labels := map[string]string{"image": "ami-2"}
	with, without := withBalancers{}, struct{ cloud.Provider }{}
	for name, c := range map[string]struct {
		provider cloud.Provider
		want     bool
	}{
		"the provider itself":         {with, true},
		"one with labels of the user": {cloud.RequireLabels(with, labels), true},
		"one that knows none":         {without, false},
		"the same, with labels":       {cloud.RequireLabels(without, labels), false},
	} {
		if _, ok := cloud.As[cloud.Balancer](c.provider); ok != c.want {
			t.Errorf("%s: a Balancer %t, want %t", name, ok, c.want)
		}
		if _, ok := cloud.As[cloud.Surveyor](c.provider); ok {
			t.Errorf("%s: a Surveyor", name)
		}
	}
}
