package plugin

import (
	"testing"
	"time"
)

func TestDurationFlagAcceptsDays(t *testing.T) {
	const bad = -1
	cases := map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0": 0, "0d": 0, "-1s": -time.Second,
		"": bad, "d": bad, "-1d": bad, "1.5d": bad, "1d-1h": bad, "1d1d": bad, "99999999d": bad, "soon": bad, "5": bad,
	}
	for text, want := range cases {
		var d days
		err := d.Set(text)
		if (err != nil) != (want == bad) || err == nil && time.Duration(d) != want {
			t.Errorf("%q: got %s and error %v, want %s", text, time.Duration(d), err, want)
		}
	}
}
