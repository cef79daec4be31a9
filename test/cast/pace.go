package cast

import (
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// Frame is a screen and the time for which a picture shows it.
type Frame struct {
	Rows [][]emulator.Span
	Time time.Duration
}

const (
	// longest is the maximum time of all frames together.
	longest = 30 * time.Second
	// shortest is the minimum time of a frame.
	shortest = 250 * time.Millisecond
	// idle is the maximum time without a change. Command lines and pages stay for this time.
	idle = time.Second
	// ending is the time of the last frame.
	ending = 3 * time.Second
	// burst is the time between two shots that belong to one change.
	burst = 50 * time.Millisecond
	// page is the number of rows by which output that arrives at once scrolls.
	page = Rows / 2
)

// Pace returns the frames of a recording. Time without a change is cut. If the frames take more than 30 seconds together, the
// others are shown for less time than command lines and pages of longer output, and frames that become too short are left out.
// Command lines and pages keep their time, even if they alone take more than 30 seconds.
func Pace(shots []Shot) []Frame {
	steps := paceSteps(selectSteps(shots))
	fitSteps(steps)
	return joinShort(steps)
}

// step is a recorded screen that may become a frame of the picture.
type step struct {
	Shot
	time time.Duration
	// held is true if the time must not be shortened.
	held bool
}

// selectSteps returns the last shot of each change, the command lines, and as many shots of output of many lines as are needed to
// see each line.
func selectSteps(shots []Shot) []step {
	var steps []step
	shown, bottom := 0, 0 // the rows that the last step has on its screen
	for i, shot := range shots {
		last := i+1 == len(shots)
		turns := !last && shots[i+1].Screen.Top >= max(shown+1, min(bottom, shown+page))
		if !last && !turns && !shot.Prompt && shots[i+1].At-shot.At < burst {
			continue
		}
		pages := turns && shots[i+1].At-shot.At < burst
		steps = append(steps, step{Shot: shot, held: shot.Prompt || pages})
		shown, bottom = shot.Screen.Top, shot.Screen.Top+len(shot.Screen.Rows)
	}
	return steps
}

// paceSteps sets the times of the steps, the idle time cut.
func paceSteps(steps []step) []step {
	for i := range steps {
		s := &steps[i]
		switch {
		case i+1 == len(steps):
			s.time, s.held = ending, true
		case s.held:
			s.time = idle
		default:
			s.time = min(idle, steps[i+1].At-s.At)
		}
	}
	return steps
}

// fitSteps shortens the steps that are not held, all by the same factor, until the steps take no more than the longest time.
func fitSteps(steps []step) {
	var held, others time.Duration
	for _, s := range steps {
		if s.held {
			held += s.time
		} else {
			others += s.time
		}
	}
	room := max(0, longest-held)
	if others <= room {
		return
	}
	factor := float64(room) / float64(others)
	for i := range steps {
		if !steps[i].held {
			steps[i].time = time.Duration(float64(steps[i].time) * factor)
		}
	}
}

// joinShort returns the frames of the steps. A step that is too short is left out. Its time goes to the next step.
func joinShort(steps []step) []Frame {
	var frames []Frame
	var waiting time.Duration
	for _, s := range steps {
		if waiting += s.time; waiting < shortest {
			continue
		}
		frames = append(frames, Frame{Rows: s.Screen.Rows, Time: waiting})
		waiting = 0
	}
	return frames
}

// Length returns the time of all frames together.
func Length(frames []Frame) time.Duration {
	var total time.Duration
	for _, f := range frames {
		total += f.Time
	}
	return total
}
