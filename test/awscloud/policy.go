package awscloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// policyDocument is the modelled part of an IAM policy. parsePolicy refuses other members.
type policyDocument struct {
	Version, ID string
	Statement   []policyStatement
}

type policyStatement struct {
	Sid, Effect      string
	Action, Resource oneOrMany
	Condition        map[string]map[string]oneOrMany // values by operator and key
}

// oneOrMany is a string or a list of strings in a policy.
type oneOrMany []string

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMany) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*o = oneOrMany{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(o))
}

func parsePolicy(text []byte) (policyDocument, error) {
	var p policyDocument
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("reading an IAM policy: %w", err)
	}
	for _, s := range p.Statement {
		if s.Effect != "Allow" && s.Effect != "Deny" || len(s.Action) == 0 || len(s.Resource) == 0 {
			return p, fmt.Errorf("reading an IAM policy: statement %q: want an Effect, an Action and a Resource", s.Sid)
		}
		for operator := range s.Condition {
			if operator != "StringEquals" && operator != "StringNotEquals" && operator != "ArnLike" {
				return p, fmt.Errorf("reading an IAM policy: the stand-in does not model the condition %s", operator)
			}
		}
	}
	return p, nil
}

// question is the input of a policy decision: whether a caller may use an action on a resource. context contains the known
// values of condition keys.
type question struct {
	action, resource string
	username         string // the value of ${aws:username}; "" for a role
	context          map[string][]string
}

// decidePolicies decides as IAM does. A deny in any statement takes precedence, and an action that no statement allows is
// denied. missing lists the condition keys without a known value. A condition on such a key is false, unless its operator tests
// for inequality.
func decidePolicies(documents []policyDocument, q question) (d iamtypes.PolicyEvaluationDecisionType, missing []string) {
	d = iamtypes.PolicyEvaluationDecisionTypeImplicitDeny
	for _, document := range documents {
		for _, s := range document.Statement {
			if !s.covers(q) {
				continue
			}
			holds, unknown := s.conditionsHold(q.context)
			missing = append(missing, unknown...)
			switch {
			case holds && s.Effect == "Deny":
				d = iamtypes.PolicyEvaluationDecisionTypeExplicitDeny
			case holds && d == iamtypes.PolicyEvaluationDecisionTypeImplicitDeny:
				d = iamtypes.PolicyEvaluationDecisionTypeAllowed
			}
		}
	}
	slices.Sort(missing)
	return d, slices.Compact(missing)
}

// covers reports whether the statement covers the action on the resource.
func (s policyStatement) covers(q question) bool {
	action := slices.ContainsFunc(s.Action, func(p string) bool { return matchesWildcard(strings.ToLower(p), strings.ToLower(q.action)) })
	return action && slices.ContainsFunc(s.Resource, func(p string) bool {
		if strings.Contains(p, "${aws:username}") && q.username == "" {
			return false
		}
		return matchesWildcard(strings.ReplaceAll(p, "${aws:username}", q.username), q.resource)
	})
}

// conditionsHold reports whether all conditions of the statement are true. missing lists the condition keys without a known
// value.
func (s policyStatement) conditionsHold(known map[string][]string) (holds bool, missing []string) {
	holds = true
	for operator, keys := range s.Condition {
		for key, values := range keys {
			have, ok := known[key]
			if !ok {
				missing = append(missing, key)
			}
			equal := slices.ContainsFunc(have, func(v string) bool {
				if operator == "ArnLike" {
					return slices.ContainsFunc(values, func(pattern string) bool { return matchesWildcard(pattern, v) })
				}
				return slices.Contains(values, v)
			})
			if equal != (operator != "StringNotEquals") {
				holds = false
			}
		}
	}
	return holds, missing
}

// matchesWildcard reports whether the text matches a pattern of a policy. In patterns * is any text and ? is any character,
// including slashes.
func matchesWildcard(pattern, text string) bool {
	expression := regexp.QuoteMeta(pattern)
	expression = strings.ReplaceAll(strings.ReplaceAll(expression, `\*`, `.*`), `\?`, `.`)
	return regexp.MustCompile(`^` + expression + `$`).MatchString(text)
}
