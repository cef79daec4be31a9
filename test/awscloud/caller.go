package awscloud

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// AccessKey is the access key of the credentials in [Cloud.Env].
const AccessKey = "AKIAIOSFODNN7EXAMPLE"

// Caller is the owner of an access key, with the IAM policies of the owner.
type Caller struct {
	// ARN is what GetCallerIdentity returns. Empty means the user upgrader.
	ARN string
	// Principal is the user or the role in IAM. Empty means ARN.
	Principal string
	// Policies are IAM policies as JSON. An action is refused unless a policy allows it.
	Policies [][]byte
}

// caller is a Caller as the stand-in stores it. It does not change.
type caller struct {
	arn, principal string
	policies       []policyDocument
	limited        bool // the policies apply; without SetCaller, the caller may do everything
}

// callerBook stores callers by access key, and counts the actions that they use.
type callerBook struct {
	account string

	mu     sync.Mutex // guards the fields below
	known  map[string]caller
	used   map[string]map[string]int // how often actions were allowed, by access key
	denied map[string]*denial        // by access key
}

// denial is an action that is refused after a number of uses, until StopDenying.
type denial struct {
	action  string
	left    int
	refused int
}

// SetCaller sets the owner of an access key and clears the list of actions that the key has used. It fails if a policy is
// invalid or is not modelled.
func (c *Cloud) SetCaller(key string, who Caller) error {
	in := caller{arn: cmp.Or(who.ARN, c.callers.defaultUser()), limited: true}
	in.principal = cmp.Or(who.Principal, in.arn)
	for _, text := range who.Policies {
		document, err := parsePolicy(text)
		if err != nil {
			return err
		}
		in.policies = append(in.policies, document)
	}
	c.callers.mu.Lock()
	defer c.callers.mu.Unlock()
	c.callers.known[key], c.callers.used[key] = in, map[string]int{}
	return nil
}

// Deny makes the stand-in refuse an action to an access key, as an explicit deny in a policy does. The key can use the action
// the given number of times before the first refusal. A second Deny replaces the first.
func (c *Cloud) Deny(key, action string, after int) {
	c.callers.mu.Lock()
	defer c.callers.mu.Unlock()
	c.callers.denied[key] = &denial{action: action, left: after}
}

// StopDenying ends the effect of Deny, and returns how many requests were refused.
func (c *Cloud) StopDenying(key string) (refused int) {
	c.callers.mu.Lock()
	defer c.callers.mu.Unlock()
	if d := c.callers.denied[key]; d != nil {
		refused = d.refused
	}
	delete(c.callers.denied, key)
	return refused
}

// UseCounts returns how often an access key has used each action so far. See UsedActions for the actions that are counted.
func (c *Cloud) UseCounts(key string) map[string]int {
	c.callers.mu.Lock()
	defer c.callers.mu.Unlock()
	return maps.Clone(c.callers.used[key])
}

// applyDenial reports whether the key's denial refuses the action, and counts the use or the refusal.
func (b *callerBook) applyDenial(key, action string) (refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.denied[key]
	switch {
	case d == nil || d.action != action:
		return false
	case d.left > 0:
		d.left--
		return false
	}
	d.refused++
	return true
}

// UsedActions lists the actions that an access key has needed so far, sorted by name. A request needs its own action and those
// that AWS requires in addition. A dry run does not count.
func (c *Cloud) UsedActions(key string) []string {
	c.callers.mu.Lock()
	defer c.callers.mu.Unlock()
	return sortedKeys(c.callers.used[key])
}

func (b *callerBook) defaultUser() string { return "arn:aws:iam::" + b.account + ":user/upgrader" }

// callerOf returns the caller of an access key.
func (b *callerBook) callerOf(key string) caller {
	b.mu.Lock()
	defer b.mu.Unlock()
	if who, ok := b.known[key]; ok {
		return who
	}
	return caller{arn: b.defaultUser(), principal: b.defaultUser()}
}

// byPrincipal returns the caller whose user or role in IAM has the ARN. ok is false if there is none.
func (b *callerBook) byPrincipal(arn string) (who caller, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, who := range b.known {
		if who.principal == arn {
			return who, true
		}
	}
	return caller{arn: arn, principal: arn}, arn == b.defaultUser()
}

// authorize returns an error for a request that the caller's policies do not allow. Otherwise it counts the actions that the
// request uses.
func (b *callerBook) authorize(key string, rec Request, todo call, resources resourceNames) *apiError {
	who := b.callerOf(key)
	if !who.limited {
		return nil
	}
	actions := neededActions(rec.Service, todo, resources)
	for _, n := range actions {
		if b.applyDenial(key, n.action) {
			return n.refusal(who, iamtypes.PolicyEvaluationDecisionTypeExplicitDeny)
		}
		known := map[string][]string{"aws:RequestedRegion": {rec.Region}}
		if n.template != "" {
			known["ec2:LaunchTemplate"] = []string{resources.templateARN(n.template)}
		}
		if d, _ := who.decide(n.action, n.resource, known); d != iamtypes.PolicyEvaluationDecisionTypeAllowed {
			return n.refusal(who, d)
		}
	}
	if todo.params["DryRun"] == "true" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range actions {
		b.used[key][n.action]++
	}
	return nil
}

// decide evaluates the caller's policies. missing lists the condition keys without a known value.
func (c caller) decide(action, resource string, known map[string][]string) (decision iamtypes.PolicyEvaluationDecisionType, missing []string) {
	if !c.limited {
		return iamtypes.PolicyEvaluationDecisionTypeAllowed, nil
	}
	q := question{action: action, resource: resource, context: known}
	if strings.Contains(c.principal, ":user/") {
		q.username = c.principal[strings.LastIndexByte(c.principal, '/')+1:]
	}
	return decidePolicies(c.policies, q)
}

// neededAction is an action that a request needs on a resource. For requests that only read, the resource is *.
type neededAction struct {
	service, action, resource string
	template                  string // the launch template for which Auto Scaling needs the action
}

// neededActions returns the actions that a request needs. Requests to STS need no action. LaunchInstances also needs
// ec2:CreateFleet. A request that sets a group's template also needs ec2:RunInstances with that template.
func neededActions(service string, todo call, resources resourceNames) []neededAction {
	if service == "sts" {
		return nil
	}
	needs := []neededAction{{service: service, action: service + ":" + todo.operation, resource: cmp.Or(todo.params["PolicySourceArn"], "*")}}
	if todo.mutating || todo.params["DryRun"] == "true" {
		needs[0].resource = cmp.Or(todo.params["PolicySourceArn"], resources.changedBy(service, todo), "*")
	}
	switch needs[0].action {
	case "autoscaling:LaunchInstances":
		needs = append(needs, neededAction{service: service, action: "ec2:CreateFleet", resource: "*"})
	case "autoscaling:UpdateAutoScalingGroup":
		template := cmp.Or(todo.params["LaunchTemplate.LaunchTemplateId"], todo.params["MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateId"])
		if template != "" {
			needs = append(needs, neededAction{service: service, action: "ec2:RunInstances", resource: "*", template: template})
		}
	}
	return needs
}

// refusal returns the service's error for an action that a policy does not allow.
func (n neededAction) refusal(who caller, d iamtypes.PolicyEvaluationDecisionType) *apiError {
	why := fmt.Sprintf("because no identity-based policy allows the %s action", n.action)
	if d == iamtypes.PolicyEvaluationDecisionTypeExplicitDeny {
		why = "with an explicit deny in an identity-based policy"
	}
	text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s %s", who.arn, n.action, n.resource, why)
	if n.resource == "*" {
		text = fmt.Sprintf("User: %s is not authorized to perform: %s %s", who.arn, n.action, why)
	}
	e := &apiError{Code: "AccessDenied", Message: text, Status: http.StatusForbidden}
	switch {
	case n.template != "":
		e.Message = "You are not authorized to use launch template: " + n.template
	case n.service == "ec2":
		e.Code, e.Message = "UnauthorizedOperation", "You are not authorized to perform this operation. "+text
	case n.service == "eks":
		e.Code = "AccessDeniedException"
	case n.service == "ssm":
		e.Code, e.Status = "AccessDeniedException", http.StatusBadRequest
	}
	return e
}

// accessKeyOf reads the access key from an Authorization header. See credentialScope.
func accessKeyOf(authorization string) string {
	rest := strings.TrimPrefix(authorization, "AWS4-HMAC-SHA256 Credential=")
	key, _, _ := strings.Cut(rest, "/")
	return key
}

// callerContext is the value in a request's context from which operations about callers read the caller.
type callerContext struct {
	book *callerBook
	who  caller
}

type callerContextKey struct{}

func withCaller(ctx context.Context, book *callerBook, who caller) context.Context {
	return context.WithValue(ctx, callerContextKey{}, callerContext{book, who})
}

// callerFrom returns the caller of the request.
func callerFrom(ctx context.Context) callerContext {
	a, _ := ctx.Value(callerContextKey{}).(callerContext)
	return a
}

// resourceNames returns the ARNs of the resources that requests change, as policies name them.
type resourceNames struct {
	account, place string
	// groupOf returns the name of the group that contains an instance, "" for none.
	groupOf func(instance string) string
}

// changedBy returns the ARN of the resource that the request changes, "" if it is not known. The IDs in the ARNs of Auto
// Scaling groups and node groups are placeholders.
func (n resourceNames) changedBy(service string, todo call) string {
	group := cmp.Or(todo.params["AutoScalingGroupName"], n.groupOf(todo.params["InstanceId"]))
	switch {
	case service == "autoscaling" && group != "":
		return "arn:aws:autoscaling:" + n.place + ":" + n.account + ":autoScalingGroup:00000000-0000-0000-0000-000000000000:autoScalingGroupName/" + group
	case service == "ec2" && todo.params["LaunchTemplateId"] != "":
		return n.templateARN(todo.params["LaunchTemplateId"])
	case service == "eks" && todo.params["nodegroupName"] != "":
		return "arn:aws:eks:" + n.place + ":" + n.account + ":nodegroup/" + todo.params["name"] + "/" + todo.params["nodegroupName"] + "/00000000-0000-0000-0000-000000000000"
	default:
		return ""
	}
}

func (n resourceNames) templateARN(id string) string {
	return "arn:aws:ec2:" + n.place + ":" + n.account + ":launch-template/" + id
}

// resourceNames returns the resource names for requests to a region.
func (c *Cloud) resourceNames(place string) resourceNames {
	return resourceNames{account: c.opts.Account, place: place, groupOf: func(instance string) string {
		r := c.regionFor(place)
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.instances[instance].group
	}}
}
