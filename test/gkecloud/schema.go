package gkecloud

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// discovery is the part of Google's discovery document that describes requests.
type discovery struct {
	Schemas map[string]schema `json:"schemas"`
}

type schema struct {
	Properties map[string]property `json:"properties"`
}

type property struct {
	Type  string    `json:"type"`
	Ref   string    `json:"$ref"`
	Enum  []string  `json:"enum"`
	Items *property `json:"items"`
}

func readDiscovery(path string) (discovery, error) {
	var d discovery
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("reading the discovery document: %w", err)
	}
	return d, nil
}

// check returns an error if the object has a field that the schema does not have, or a field of another type.
func (d discovery) check(name string, object map[string]any) error {
	known, ok := d.Schemas[name]
	if !ok {
		return fmt.Errorf("schema %s is not in the discovery document", name)
	}
	for field, value := range object {
		p, ok := known.Properties[field]
		if !ok {
			return fmt.Errorf("unknown name %q at %s: cannot find field", field, name)
		}
		if err := d.checkValue(p, value); err != nil {
			return fmt.Errorf("%s.%s: %w", name, field, err)
		}
	}
	return nil
}

func (d discovery) checkValue(p property, value any) error {
	ok := false
	switch v := value.(type) {
	case map[string]any:
		if p.Ref != "" {
			return d.check(p.Ref, v)
		}
	case []any:
		for _, item := range v {
			if p.Items == nil {
				return fmt.Errorf("a list is not a %s", p.Type)
			}
			if err := d.checkValue(*p.Items, item); err != nil {
				return err
			}
		}
		ok = p.Type == "array"
	case string:
		ok = p.Type == "string" && (len(p.Enum) == 0 || slices.Contains(p.Enum, v))
	case bool:
		ok = p.Type == "boolean"
	case float64:
		ok = p.Type == "integer" && v == float64(int32(v)) || p.Type == "number"
	}
	if !ok {
		return fmt.Errorf("%v is not a %s", value, p.Type)
	}
	return nil
}

// CheckUpdate returns an error if the body of an update does not fit the discovery document.
func (c *Cloud) CheckUpdate(body map[string]any) error {
	return c.discovery.check("UpdateNodePoolRequest", body)
}
