package worlds

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed found.jsonl
var foundPlans []byte

// Found are the plans of worlds that broke a rule once, by a fault that few worlds show. The plans are stored, one a line, because a seed
// draws another world once the worlds have something more to draw.
//
// Errors: a line is no plan.
func Found() ([]Plan, error) {
	var plans []Plan
	for line := range bytes.Lines(foundPlans) {
		var p Plan
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("reading line %d of found.jsonl: %w", len(plans)+1, err)
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// Line is the plan as a line of found.jsonl, without what is zero.
func (p *Plan) Line() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var tree any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // a seed may have more digits than a float
	if err := numbers.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(withoutZeros(tree))
}

// withoutZeros drops the fields of objects that are zero. Lists keep all of their elements.
func withoutZeros(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			switch value {
			case nil, false, "", json.Number("0"):
				delete(tree, key)
			default:
				tree[key] = withoutZeros(value)
			}
		}
	case []any:
		for i := range tree {
			tree[i] = withoutZeros(tree[i])
		}
	}
	return tree
}
