package worlds

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed found.jsonl
var storedLines []byte

// StoredPlans returns the stored plans of worlds in which a rule was broken once. Few other worlds show the same faults. The plans are
// stored because the same seed gives another world after the generator changes.
//
// Errors: a line is not a plan.
func StoredPlans() ([]Plan, error) {
	var plans []Plan
	for line := range bytes.Lines(storedLines) {
		var p Plan
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("reading line %d of found.jsonl: %w", len(plans)+1, err)
		}
		plans = append(plans, p)
	}
	return plans, nil
}

// Line returns the plan as a line of found.jsonl, without zero values.
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

// withoutZeros removes fields with a zero value from JSON objects. It removes no elements from lists.
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
