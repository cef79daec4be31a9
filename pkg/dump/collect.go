package dump

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// collector collects objects one after the other.
type collector struct {
	limits Limits
	trim   func(object any)
	dump   *Dump
	// count is the number of objects so far, known the number of objects of supported kinds.
	count, known int
	// current is the name of the next object, if it is known.
	current string
	kinds   map[string]*inventory.Kind
	// present contains the kinds, by apiVersion/kind, that have an object or a list in the dump.
	present map[string]bool
	seen    map[identity]bool
	uids    map[types.UID]identity
}

// identity identifies an object as the API server does.
type identity struct{ kind, namespace, name string }

func (i identity) String() string {
	if i.namespace == "" {
		return fmt.Sprintf("%s %s", i.kind, clipText(i.name))
	}
	return fmt.Sprintf("%s %s/%s", i.kind, clipText(i.namespace), clipText(i.name))
}

func newCollector(limits Limits, trim func(object any)) *collector {
	d := &Dump{Ignored: map[string]int{}}
	d.OtherVersions = map[string]string{}
	return &collector{limits: limits, trim: trim, dump: d, kinds: kindsByType(), present: map[string]bool{}, seen: map[identity]bool{}, uids: map[types.UID]identity{}}
}

// head is the part of an object that is decoded first.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items json.RawMessage `json:"items"`
}

// nextObjectName returns the name of the next object for errors.
func (c *collector) nextObjectName() string {
	if c.current == "" {
		return fmt.Sprintf("object %d", c.count+1)
	}
	return fmt.Sprintf("object %d (%s)", c.count+1, c.current)
}

func (c *collector) truncatedError() error {
	return fmt.Errorf("the file ends in the middle of an object, after %s: write it again with %s", formatCount(c.count, "whole object"), Command())
}

func (c *collector) notTextError() error {
	return fmt.Errorf("%s is plain text, not an object of Kubernetes: write the file with %s", c.nextObjectName(), Command())
}

// addObject adds an item of a list or, if list is nil, a single object. Items of a typed list, such
// as a NodeList, get their kind from it.
func (c *collector) addObject(raw []byte, list *metav1.TypeMeta) error {
	var h head
	switch {
	case len(raw) == 0 || raw[0] != '{':
		return c.notTextError()
	case !utf8.Valid(raw):
		return fmt.Errorf("%s is not UTF-8: write the file with %s", c.nextObjectName(), Command())
	}
	if err := c.decodeObject(raw, &h); err != nil {
		return err
	}
	if list != nil && isList(h.Kind) && (h.Kind == "List" || h.Items != nil) {
		return fmt.Errorf("%s is a list (%s) inside a List: write the file with one command: %s", c.nextObjectName(), clipText(h.Kind), Command())
	}
	if list != nil && h.Kind == "" {
		h.Kind, h.APIVersion = strings.TrimSuffix(list.Kind, "List"), list.APIVersion
	}
	return c.keepObject(raw, h)
}

func isList(kind string) bool { return strings.HasSuffix(kind, "List") }

// finishList is called after a list's last item, when all fields of the list are known.
func (c *collector) finishList(list metav1.TypeMeta) error {
	switch {
	case list.Kind == "":
		return c.truncatedError() // kubectl writes kind last, so the text was cut short
	case !isList(list.Kind):
		return fmt.Errorf("found a %s with items instead of a List: write the file with %s", clipText(list.Kind), Command())
	default:
		c.present[list.APIVersion+"/"+strings.TrimSuffix(list.Kind, "List")] = true
		return nil
	}
}

// endlessNumber matches a quantity that resource.ParseQuantity would compute for hours, such as
// 1e-999999999 or a number of a thousand digits. It does not match a UID that ends in
// 7e-123456789012. It is compiled when the first dump is read, because that takes 0.6 ms.
var endlessNumber = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[:"]\s*[+-]?(?:[0-9.]+[eE]-[0-9]{4,}["\s,}\]]|[0-9.]{1000})`)
})

// keepObject checks the object, and keeps it if its kind matters for an upgrade.
func (c *collector) keepObject(raw []byte, h head) error {
	if c.count >= c.limits.Objects {
		return fmt.Errorf("more than %d objects: leave out namespaces and kinds that do not matter to the node group", c.limits.Objects)
	}
	k, known := c.kinds[h.APIVersion+"/"+h.Kind]
	c.present[h.APIVersion+"/"+h.Kind] = true
	switch {
	case h.Kind == "":
		return fmt.Errorf("%s has no kind: write the file with %s", c.nextObjectName(), Command())
	case !known:
		c.count++
		c.dump.Ignored[h.Kind]++
		c.recordOtherVersion(&h)
		return nil
	case h.Metadata.Name == "":
		return fmt.Errorf("%s is a %s without a name: give it metadata.name", c.nextObjectName(), h.Kind)
	}
	id := identity{kind: h.Kind, name: h.Metadata.Name}
	if k.Namespaced {
		id.namespace = h.Metadata.Namespace
		if id.namespace == "" {
			id.namespace = "default"
		}
	}
	if c.seen[id] {
		return fmt.Errorf("%s is %s for the second time: keep only one of them", c.nextObjectName(), id)
	}
	c.seen[id] = true
	c.current = id.String()
	if endlessNumber().Match(raw) {
		return fmt.Errorf("%s has a number with too many digits: write the file with %s", c.nextObjectName(), Command())
	}
	if err := c.addDecoded(k, raw, id); err != nil {
		return err
	}
	c.current = ""
	c.count++
	c.known++
	return nil
}

// legacyGroup is the old API group of Deployments, Ingresses and others.
const legacyGroup = "extensions"

// recordOtherVersion records the version of an object whose kind is supported only in another version.
func (c *collector) recordOtherVersion(h *head) {
	group, _, _ := strings.Cut(h.APIVersion, "/")
	for _, k := range c.kinds {
		if k.Name == h.Kind && k.Group() != "" && (k.Group() == group || group == legacyGroup) {
			again := shell.Join([]string{"kubectl", "get", k.Versioned(), "-A", "-o", "json"})
			c.dump.OtherVersions[k.Resource] = fmt.Sprintf("%s, a version that is not supported: write these objects again with %s", clipText(h.APIVersion), again)
		}
	}
}

// decodeObject decodes an object as the API server would. It ignores fields that it does not know.
func (c *collector) decodeObject(raw []byte, into any) error {
	if err := kjson.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %s: write the file with %s", c.nextObjectName(), clipText(err.Error()), Command())
	}
	return nil
}

// clipText shortens text from the input for messages.
func clipText(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// completeDump checks and completes the dump after the last object.
func (c *collector) completeDump() (*Dump, error) {
	d := c.dump
	switch {
	case c.count == 0:
		return nil, fmt.Errorf("it is empty: write it with %s", Command())
	case c.known == 0:
		return nil, fmt.Errorf("found %s, but no objects of a cluster: write it with %s", formatKinds(d.Ignored), Command())
	case len(d.Nodes) == 0:
		return nil, fmt.Errorf("found %s, but no nodes: write it with %s", formatCount(c.count, "object"), Command())
	}
	for _, node := range d.Nodes { // no controller detaches volumes in a simulation
		node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil
	}
	c.fillOwnerUIDs()
	d.IsDump = true
	for name, k := range c.kinds {
		if !c.present[name] || d.OtherVersions[k.Resource] != "" { // a kind that was read only in part counts as unread
			d.Unread = append(d.Unread, k.Resource)
		}
	}
	slices.Sort(d.Unread)
	return d, nil
}

// formatKinds lists the first few kinds with their numbers.
func formatKinds(kinds map[string]int) string {
	const most = 3
	var parts []string
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		if i == most {
			parts = append(parts, "more")
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], clipText(kind)))
	}
	return strings.Join(parts, ", ")
}

// formatCount returns a number with its noun.
func formatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// uniqueUID returns the object's UID, or a new one if it has none. It returns an error if another
// object has the same UID.
func (c *collector) uniqueUID(uid types.UID, id identity) (types.UID, error) {
	if uid == "" {
		uid = makeUID(id)
	}
	if other, taken := c.uids[uid]; taken {
		return "", fmt.Errorf("%s and %s have the same uid: remove one of the two uids, which is then replaced", c.nextObjectName(), other)
	}
	c.uids[uid] = id
	return uid, nil
}

// makeUID returns a UID that depends only on the identity, so it is the same for each reading of a
// dump.
func makeUID(id identity) types.UID {
	return types.UID(strings.ToLower(id.kind) + "/" + id.namespace + "/" + id.name)
}
