package dump

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// jsonReader reads documents of JSON. Each is a single object or a list, whose items it passes on
// one by one.
type jsonReader struct {
	c   *collector
	dec *json.Decoder
	// object limits the bytes that are read for one object.
	object *bounded
	// listType is the type of a list whose items come before its kind.
	listType metav1.TypeMeta
}

// readJSON reads documents until the input ends. listType is the type of a list, if it is known.
func (c *collector) readJSON(in io.Reader, listType metav1.TypeMeta) error {
	tooLarge := fmt.Errorf("an object is longer than %s, and no Kubernetes object is: write the file with %s", formatSize(c.limits.Object), Command())
	object := &bounded{in, c.limits.Object, tooLarge}
	r := jsonReader{c, json.NewDecoder(object), object, listType}
	for {
		token, err := r.dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.explainError(err)
		case token == nil: // an empty document of YAML
		case token == json.Delim('['):
			return fmt.Errorf("%s is an array, not a List of Kubernetes: write it with %s", r.c.nextObjectName(), Command())
		case token != json.Delim('{'):
			return r.c.notTextError()
		default:
			if err := r.readObject(); err != nil {
				return err
			}
		}
	}
}

// readObject reads an object after its opening brace.
func (r *jsonReader) readObject() error {
	fields, isList := map[string]json.RawMessage{}, false
	for r.dec.More() {
		name, err := r.dec.Token()
		if err != nil {
			return r.explainError(err)
		}
		if name == "items" {
			isList = true
			err = r.readItems(fields)
		} else {
			key, _ := name.(string) // the decoder allows only strings as keys
			fields[key], err = r.readValue()
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return r.explainError(err)
	}
	r.object.left = r.c.limits.Object
	raw, err := json.Marshal(fields)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", r.c.nextObjectName(), err)
	case isList:
		return r.c.finishList(listTypeOf(raw))
	case len(fields) == 0:
		return nil
	default:
		return r.c.addObject(raw, nil)
	}
}

// readItems reads the items of a list. fields has the list's fields that came before.
func (r *jsonReader) readItems(fields map[string]json.RawMessage) error {
	token, err := r.dec.Token()
	switch {
	case err != nil:
		return r.explainError(err)
	case token == nil:
		return nil
	case token != json.Delim('['):
		return fmt.Errorf("%s: items is not an array: write the file with %s", r.c.nextObjectName(), Command())
	}
	raw, _ := json.Marshal(fields) // these are valid, because they were decoded
	list := listTypeOf(raw)
	list.Kind, list.APIVersion = cmp.Or(list.Kind, r.listType.Kind), cmp.Or(list.APIVersion, r.listType.APIVersion)
	for r.dec.More() {
		item, err := r.readValue()
		if err != nil {
			return err
		}
		if err := r.c.addObject(item, &list); err != nil {
			return err
		}
		r.object.left = r.c.limits.Object
	}
	if _, err := r.dec.Token(); err != nil {
		return r.explainError(err)
	}
	return nil
}

func (r *jsonReader) readValue() (json.RawMessage, error) {
	var value json.RawMessage
	if err := r.dec.Decode(&value); err != nil {
		return nil, r.explainError(err)
	}
	return value, nil
}

// explainError returns an error that says where the text stops being JSON.
func (r *jsonReader) explainError(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.c.truncatedError()
	case errors.As(err, &syntax):
		return fmt.Errorf("%s is not JSON from byte %d on: %w: write the file with %s", r.c.nextObjectName(), r.dec.InputOffset(), err, Command())
	default:
		return fmt.Errorf("%s: %w", r.c.nextObjectName(), err)
	}
}

// listTypeOf returns the kind and the apiVersion that the JSON of a list has.
func listTypeOf(raw []byte) metav1.TypeMeta {
	var list metav1.TypeMeta
	// A field of a wrong type is ignored here; finishList reports that it is missing.
	_ = kjson.Unmarshal(raw, &list)
	return list
}
