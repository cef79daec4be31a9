package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readJSON reads documents of JSON, one after the other. mark is told how far it has come, in
// bytes; it may be nil.
func (c *collector) readJSON(r io.Reader, mark func(int64)) error {
	dec := json.NewDecoder(r)
	d := &document{c: c, dec: dec, mark: mark}
	for {
		switch err := d.read(); {
		case errors.Is(err, errEnd):
			return nil
		case err != nil:
			return err
		}
	}
}

// errEnd is the end of the input between two documents.
var errEnd = errors.New("end of input")

// document is one JSON value at the top level: a list, whose items are read one by one, or a single
// object.
type document struct {
	c    *collector
	dec  *json.Decoder
	mark func(int64)
}

func (d *document) read() error {
	token, err := d.dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return errEnd
	case err != nil:
		return d.broken(err)
	case token == nil:
		return nil // an empty document of YAML
	case token == json.Delim('['):
		return fmt.Errorf("%s is an array, not a List of Kubernetes: write it with %s", d.c.next(), Command)
	case token != json.Delim('{'):
		return d.c.noObject()
	}
	fields := map[string]json.RawMessage{}
	list := false
	for d.dec.More() {
		name, err := d.dec.Token()
		if err != nil {
			return d.broken(err)
		}
		key, _ := name.(string) // the decoder lets nothing else be a key
		if key == "items" {
			list = true
			err = d.items(fields)
		} else {
			err = d.value(fields, key)
		}
		if err != nil {
			return err
		}
	}
	if _, err := d.dec.Token(); err != nil {
		return d.broken(err)
	}
	return d.close(fields, list)
}

func (d *document) value(fields map[string]json.RawMessage, key string) error {
	var value json.RawMessage
	if err := d.dec.Decode(&value); err != nil {
		return d.broken(err)
	}
	fields[key] = value
	return nil
}

// items reads the items of a list whose other fields so far are given.
func (d *document) items(fields map[string]json.RawMessage) error {
	token, err := d.dec.Token()
	switch {
	case err != nil:
		return d.broken(err)
	case token == nil:
		return nil
	case token != json.Delim('['):
		return fmt.Errorf("%s: items is not an array: write the file with %s", d.c.next(), Command)
	}
	list := listOf(fields)
	for d.dec.More() {
		var item json.RawMessage
		if err := d.dec.Decode(&item); err != nil {
			return d.broken(err)
		}
		if err := d.c.item(item, list); err != nil {
			return err
		}
		if d.mark != nil {
			d.mark(d.dec.InputOffset())
		}
	}
	if _, err = d.dec.Token(); err != nil {
		return d.broken(err)
	}
	return nil
}

func (d *document) close(fields map[string]json.RawMessage, list bool) error {
	if list {
		return d.c.endList(listOf(fields))
	}
	if len(fields) == 0 {
		return nil
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("%s: %w", d.c.next(), err)
	}
	if d.mark != nil {
		d.mark(d.dec.InputOffset())
	}
	return d.c.add(raw)
}

// broken says where the text stops being JSON.
func (d *document) broken(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return d.c.truncated()
	case errors.As(err, &syntax):
		return fmt.Errorf("%s is not JSON from byte %d on: %w: write the file with %s", d.c.next(), d.dec.InputOffset(), err, Command)
	default:
		return fmt.Errorf("%s: %w", d.c.next(), err)
	}
}
