package awscloud

import (
	"maps"
	"slices"
	"time"

	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// Size is the size of a group from the time At until the next Size of its timeline.
type Size struct {
	At                time.Duration // since the start
	Min, Max, Desired int
	Zones             map[string]int // instances that count towards the capacity: Pending and InService
	InService         int
	Terminating       int // in any state of termination
}

// sizeOf returns the group's size.
func sizeOf(g *group, members []instance, since time.Duration) Size {
	s := Size{At: since, Min: g.min, Max: g.max, Desired: g.desired, Zones: map[string]int{}}
	for _, z := range g.spec.Zones {
		s.Zones[z] = 0
	}
	for _, i := range members {
		switch {
		case isLive(i):
			s.Zones[i.zone]++
		default:
			s.Terminating++
		}
		if i.state == at.LifecycleStateInService {
			s.InService++
		}
	}
	return s
}

// appendSize appends a size to a timeline if it differs from the last size in more than its time.
func appendSize(line []Size, s Size) []Size {
	if n := len(line); n > 0 {
		last := line[n-1]
		if last.Min == s.Min && last.Max == s.Max && last.Desired == s.Desired &&
			last.InService == s.InService && last.Terminating == s.Terminating && maps.Equal(last.Zones, s.Zones) {
			return line
		}
	}
	return append(line, s)
}

// view contains the groups and instances at one time. Describe calls read a view, which is from the past if reads lag.
type view struct {
	at        time.Time
	groups    []group    // by name
	instances []instance // by launch
}

func (r *region) view(now time.Time) view {
	v := view{at: now}
	for _, name := range sortedKeys(r.groups) {
		v.groups = append(v.groups, *r.groups[name])
	}
	for _, id := range r.launched {
		v.instances = append(v.instances, r.instances[id])
	}
	return v
}

// laggedView returns the view for a describe call, which is Options.DescribeLag old.
func (r *region) laggedView() view {
	now := time.Now()
	if r.opts.DescribeLag == 0 || len(r.past) == 0 {
		return r.view(now)
	}
	return dropOldViews(r.past, now.Add(-r.opts.DescribeLag))[0]
}

// dropOldViews removes the views that a newer view had replaced by the time then. The first remaining view is the state at that
// time.
func dropOldViews(past []view, then time.Time) []view {
	n := slices.IndexFunc(past, func(v view) bool { return v.at.After(then) })
	switch {
	case n < 0:
		n = len(past)
	case n == 0:
		n = 1
	}
	return past[max(0, n-1):]
}

// members lists the group's instances in the view.
func (v view) members(name string) []instance {
	return slices.DeleteFunc(slices.Clone(v.instances), func(i instance) bool { return i.group != name || i.left })
}
