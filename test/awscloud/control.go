package awscloud

import (
	"fmt"
	"time"
)

// SetDesired changes a group's desired capacity as an autoscaler or another user would. The change is not in the request log.
// It fails with the errors of SetDesiredCapacity.
func (c *Cloud) SetDesired(group string, n int) error {
	return c.home.update(func(now time.Time) error { return c.home.setDesired(group, n, now) })
}

// KillInstance stops a machine as a spot interruption or a hardware failure does. The group notices it after
// Options.HealthCheck.
func (c *Cloud) KillInstance(id string) error {
	return c.home.update(func(now time.Time) error {
		i, ok := c.home.instances[id]
		if !ok || isStopped(i) {
			return fmt.Errorf("killing instance %q: no such instance runs: take an id from Group", id)
		}
		c.home.storeInstance(i, shutDown(i, c.home.opts, now), now)
		return nil
	})
}

// LimitCapacity limits a zone to n more launches. Every further launch fails with InsufficientInstanceCapacity. A negative n
// removes the limit.
func (c *Cloud) LimitCapacity(zone string, n int) {
	_ = c.home.update(func(time.Time) error {
		c.home.launchLimits[zone] = n
		if n < 0 {
			delete(c.home.launchLimits, zone)
		}
		return nil
	})
}

// ReplaceRootVolume gives a running instance another image, as an instance refresh with strategy ReplaceRootVolume does. The
// instance keeps its launch template version, and the group shows the new image.
func (c *Cloud) ReplaceRootVolume(id, image string) error {
	return c.home.update(func(time.Time) error {
		i, ok := c.home.instances[id]
		if _, known := c.home.images[image]; !ok || !known {
			return fmt.Errorf("replacing the root volume of instance %q by image %q: one of them is unknown: add it first", id, image)
		}
		i.spec.image, i.spec.imageOverride = image, true
		c.home.instances[id] = i
		return nil
	})
}

// Protect sets the scale-in protection of an instance.
func (c *Cloud) Protect(id string, on bool) error {
	return c.home.update(func(time.Time) error {
		i, ok := c.home.instances[id]
		if !ok {
			return fmt.Errorf("protecting instance %q: there is none: take an id from Group", id)
		}
		i.protected = on
		c.home.instances[id] = i
		return nil
	})
}

// SetDefaultVersion sets the $Default version of a template.
func (c *Cloud) SetDefaultVersion(template string, version int) error {
	return c.home.update(func(time.Time) error {
		t, ok := c.home.findTemplate(template, "")
		if !ok || version < 1 || version > len(t.versions) {
			return fmt.Errorf("setting the default version of template %q to %d: it has no such version: add it first", template, version)
		}
		t.defaultVersion = version
		return nil
	})
}

// setDesired carries out SetDesiredCapacity.
func (r *region) setDesired(name string, n int, now time.Time) error {
	g, ok := r.groups[name]
	switch {
	case !ok:
		return unknownGroupError(name)
	case n < g.min:
		return validationError("New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", n, g.min)
	case n > g.max:
		return validationError("New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", n, g.max)
	}
	g.setDesired(n, now, "a user request explicitly set group desired capacity")
	return nil
}

// unknownGroupError returns the error for a change of an unknown group.
func unknownGroupError(name string) *apiError {
	return validationError("AutoScalingGroup name not found - AutoScalingGroup %s not found", name)
}
