package dump

import (
	"bytes"
	"encoding/json"
	"fmt"
)

const (
	// mostDigits is more than any number has that another actor means, an RSA modulus in an
	// annotation included.
	mostDigits = 4096
	// mostExponent is how many digits a negative exponent may have.
	mostExponent = 3
)

// checkNumbers refuses values that look like quantities and would take hours to read:
// resource.ParseQuantity computes 1e-999999999, and a number of a million digits, to the last one.
func (c *collector) checkNumbers(raw []byte) error {
	if bytes.Contains(raw, []byte(`\u`)) {
		// Digits may hide behind escapes.
		var value any
		if err := c.decodeObject(raw, &value); err != nil {
			return err
		}
		plain, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("%s: %w", c.nameNext(), err)
		}
		raw = plain
	}
	if hasEndlessNumber(raw) {
		return fmt.Errorf("%s holds a number that is too long to be one: write the file with %s", c.nameNext(), Command)
	}
	return nil
}

func hasEndlessNumber(raw []byte) bool {
	for len(raw) > 0 {
		n := countDigits(raw)
		if n > mostDigits {
			return true
		}
		raw = raw[n:]
		if n > 0 && len(raw) > 1 && raw[0]|0x20 == 'e' && raw[1] == '-' {
			e := countDigits(raw[2:])
			// A uid may hold 7e-1234-, but it continues.
			if end := raw[2+e:]; e > mostExponent && (len(end) == 0 || bytes.IndexByte([]byte("\",]} \t\r\n"), end[0]) >= 0) {
				return true
			}
		}
		next := bytes.IndexAny(raw, "0123456789.")
		if next < 0 {
			return false
		}
		raw = raw[next:]
	}
	return false
}

// countDigits counts those at the beginning, points among them.
func countDigits(text []byte) int {
	n := 0
	for n < len(text) && (text[n] == '.' || '0' <= text[n] && text[n] <= '9') {
		n++
	}
	return n
}
