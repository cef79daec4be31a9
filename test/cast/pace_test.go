package cast

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// shotOf returns a shot of a screen with one row.
func shotOf(at time.Duration, row string) Shot {
	return Shot{At: at, Screen: emulator.Screen{Rows: [][]emulator.Span{{{Text: row, Cells: len(row)}}}}}
}

// promptOf returns a shot of a command line.
func promptOf(at time.Duration, row string) Shot {
	shot := shotOf(at, row)
	shot.Prompt = true
	return shot
}

// describe lists the first row and the time of each frame.
func describe(frames []Frame) []string {
	var list []string
	for _, f := range frames {
		list = append(list, fmt.Sprintf("%s %s", f.Rows[0][0].Text, f.Time))
	}
	return list
}

func TestIdleTimeOfRecordingIsShortened(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		shots []Shot
		want  []string
	}{
		"nothing":                         {nil, nil},
		"the last frame stays":            {[]Shot{shotOf(0, "a")}, []string{"a 3s"}},
		"idle time is cut":                {[]Shot{shotOf(0, "a"), shotOf(time.Hour, "b")}, []string{"a 1s", "b 3s"}},
		"shorter time is kept":            {[]Shot{shotOf(0, "a"), shotOf(400*ms, "b")}, []string{"a 400ms", "b 3s"}},
		"a burst is one change":           {[]Shot{shotOf(0, "a"), shotOf(400*ms, "b"), shotOf(401*ms, "c"), shotOf(900*ms, "d")}, []string{"a 401ms", "c 499ms", "d 3s"}},
		"short frames give their time on": {[]Shot{shotOf(0, "a"), shotOf(100*ms, "b"), shotOf(200*ms, "c"), shotOf(300*ms, "d"), shotOf(600*ms, "e")}, []string{"c 300ms", "d 300ms", "e 3s"}},
		"a command line stays":            {[]Shot{promptOf(0, "$ a"), shotOf(10*ms, "b"), promptOf(70*ms, "$ c"), shotOf(71*ms, "d")}, []string{"$ a 1s", "$ c 1.06s", "d 3s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describe(Pace(c.shots)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestLongRecordingsAreShownFaster: a long recording is shown faster, but not its command line. No more than four frames are shown in a second.
func TestLongRecordingsAreShownFaster(t *testing.T) {
	shots := []Shot{promptOf(0, "$ long")}
	for i := range 1200 {
		shots = append(shots, shotOf(time.Duration(i+1)*200*time.Millisecond, fmt.Sprint(i)))
	}
	frames := Pace(shots)
	if total := Length(frames); total > longest || total < longest-shortest {
		t.Errorf("the frames take %s", total)
	}
	if got := describe(frames[:1]); got[0] != "$ long 1s" {
		t.Errorf("the first frame is %s", got[0])
	}
	for i, f := range frames {
		if f.Time < shortest {
			t.Errorf("frame %d is shown for %s", i, f.Time)
		}
	}
	if last := describe(frames)[len(frames)-1]; last[:4] != "1199" {
		t.Errorf("the last frame is %s", last)
	}
}

// TestEachLineOfLongOutputIsOnAFrame: of a long output that arrives at once each line is on a frame.
func TestEachLineOfLongOutputIsOnAFrame(t *testing.T) {
	for _, lines := range []int{1, 23, 24, 25, 36, 37, 100} {
		t.Run(fmt.Sprint(lines), func(t *testing.T) {
			r := New()
			r.write("$ print\n")
			r.take(true)
			for i := range lines {
				r.write(fmt.Sprintf("line %d\n", i))
				r.take(false)
			}
			for i := range r.Shots {
				r.Shots[i].At = time.Duration(i) // all lines arrive at once
			}
			frames := Pace(r.Shots)
			for i := range lines {
				line := fmt.Sprintf("line %d", i)
				if !slices.ContainsFunc(frames, func(f Frame) bool {
					return slices.ContainsFunc(f.Rows, func(row []emulator.Span) bool { return len(row) == 1 && row[0].Text == line })
				}) {
					t.Errorf("no frame shows %s", line)
				}
			}
			if most := 3 + lines/page; len(frames) > most {
				t.Errorf("%d frames, more than %d", len(frames), most)
			}
		})
	}
}
