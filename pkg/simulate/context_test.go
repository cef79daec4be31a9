package simulate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/simulate"
)

// A forecast ends with its context and returns the context's cause.
func TestForecastEndsWithItsContext(t *testing.T) {
	why := errors.New("the user has seen enough")
	ctx, end := context.WithCancelCause(t.Context())
	end(why)
	if _, err := simulate.Predict(ctx, shop(), request()); !errors.Is(err, why) {
		t.Errorf("it ends with %v, want %v", err, why)
	}
}
