package awscloud

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/smithy-go"
)

// serializable is an SDK structure that serializes itself field by field, such as every Output of eks and ssm.
type serializable interface {
	Serialize(smithy.ShapeSerializer)
}

// encodeJSON encodes an SDK structure as JSON, with the member names of its schema and with times as seconds since 1970.
func encodeJSON(v serializable) ([]byte, error) {
	s := &jsonShapes{}
	v.Serialize(s)
	body, err := json.Marshal(s.root)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return body, nil
}

// jsonShapes is a serializer that builds a value for encoding/json from the calls of Serialize.
type jsonShapes struct {
	smithy.ShapeSerializer // nil: EKS and SSM use no big numbers, unions or documents

	root any
	open []container
}

// container is a structure, map or list that is not yet complete.
type container struct {
	members map[string]any
	list    *[]any
	key     string // of the next value, in a map
}

// put adds a value to the innermost container.
func (s *jsonShapes) put(schema *smithy.Schema, v any) {
	if len(s.open) == 0 {
		s.root = v
		return
	}
	c := &s.open[len(s.open)-1]
	switch {
	case c.list != nil:
		*c.list = append(*c.list, v)
	case c.key != "":
		c.members[c.key], c.key = v, ""
	default:
		c.members[schema.MemberName()] = v
	}
}

func (s *jsonShapes) pop() { s.open = s.open[:len(s.open)-1] }

func (s *jsonShapes) WriteInt32(schema *smithy.Schema, v int32)     { s.put(schema, v) }
func (s *jsonShapes) WriteInt64(schema *smithy.Schema, v int64)     { s.put(schema, v) }
func (s *jsonShapes) WriteFloat64(schema *smithy.Schema, v float64) { s.put(schema, v) }
func (s *jsonShapes) WriteBool(schema *smithy.Schema, v bool)       { s.put(schema, v) }
func (s *jsonShapes) WriteString(schema *smithy.Schema, v string)   { s.put(schema, v) }
func (s *jsonShapes) WriteNil(schema *smithy.Schema)                { s.put(schema, nil) }

func (s *jsonShapes) WriteTime(schema *smithy.Schema, v time.Time) {
	s.put(schema, float64(v.UnixMilli())/1000)
}

func (s *jsonShapes) WriteStruct(schema *smithy.Schema) {
	members := map[string]any{}
	s.put(schema, members)
	s.open = append(s.open, container{members: members})
}

func (s *jsonShapes) WriteList(schema *smithy.Schema) {
	list := &[]any{}
	s.put(schema, list)
	s.open = append(s.open, container{list: list})
}

func (s *jsonShapes) WriteMap(schema *smithy.Schema) { s.WriteStruct(schema) }

func (s *jsonShapes) WriteKey(_ *smithy.Schema, key string) { s.open[len(s.open)-1].key = key }

func (s *jsonShapes) CloseStruct() { s.pop() }
func (s *jsonShapes) CloseList()   { s.pop() }
func (s *jsonShapes) CloseMap()    { s.pop() }

// jsonFault encodes an error for the JSON protocols, which send it in a header and in the body.
func jsonFault(e *apiError, contentType string) response {
	body, err := json.Marshal(map[string]string{"__type": e.Code, "message": e.Message})
	if err != nil { // two strings always marshal
		body = []byte(`{}`)
	}
	return response{contentType: contentType, errorType: e.Code, body: body}
}

// flatJSON returns the members of a JSON object as text. A list has one entry for each element, with the key name.1, name.2 and
// so on.
func flatJSON(body []byte) map[string]string {
	var members map[string]any
	if json.Unmarshal(body, &members) != nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range members {
		list, ok := v.([]any)
		if !ok {
			out[k] = fmt.Sprint(v)
		}
		for i, e := range list {
			out[k+"."+strconv.Itoa(i+1)] = fmt.Sprint(e)
		}
	}
	return out
}
