package container

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time. In JSON it is a number of seconds with up to nine decimals: "3.5s".
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.wireText()) }

// wireText returns the duration in whole seconds, with decimals only if they are needed.
func (d Duration) wireText() string {
	whole, rest := time.Duration(d)/time.Second, time.Duration(d)%time.Second
	if rest == 0 {
		return strconv.FormatInt(int64(whole), 10) + "s"
	}
	sign := ""
	if d < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%09d", whole, rest), "0") + "s"
}

// UnmarshalJSON implements json.Unmarshaler. The longest Duration stands for durations above 292 years. A text that is not a
// number of seconds is an error.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("reading a duration: %w", err)
	}
	if text == "" {
		return nil // null, or a duration that is not set
	}
	parsed, ok := parseDuration(text)
	if !ok {
		return fmt.Errorf("reading a duration: %.40q is not a number of seconds", text)
	}
	*d = parsed
	return nil
}

func parseDuration(text string) (Duration, bool) {
	number, seconds := strings.CutSuffix(text, "s")
	digits, negative := strings.CutPrefix(number, "-")
	whole, decimals, _ := strings.Cut(digits, ".")
	if !seconds || whole == "" || len(decimals) > 9 || strings.Trim(whole+decimals, "0123456789") != "" {
		return 0, false
	}
	nanoseconds, err := strconv.ParseInt(whole+(decimals + "000000000")[:9], 10, 64)
	if err != nil { // only digits, so the number is too large
		nanoseconds = math.MaxInt64
	}
	if negative {
		nanoseconds = -nanoseconds
	}
	return Duration(nanoseconds), true
}

// Time is a time of an answer. It is zero if the answer has none.
type Time struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler. A text that is not in the format of RFC 3339 is an error.
func (t *Time) UnmarshalJSON(data []byte) error {
	if string(data) == `""` {
		return nil
	}
	return t.Time.UnmarshalJSON(data)
}
