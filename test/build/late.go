package build

import (
	"context"
	"time"
)

// Unnoticed is a context whose deadline passes without its end: the process was halted meanwhile, and has only just gone on.
func Unnoticed(ctx context.Context, until time.Time) context.Context { return unnoticed{ctx, until} }

type unnoticed struct {
	context.Context
	until time.Time
}

// Deadline implements context.Context.
func (c unnoticed) Deadline() (time.Time, bool) { return c.until, true }
