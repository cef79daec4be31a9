package dump

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// collector takes objects in, one after the other.
type collector struct {
	limits Limits
	dump   *Dump
	// count is how many objects were met, known how many of them are of kinds that say something.
	count, known int
	// place is where the next object begins, as far as that is known.
	place string
	kinds map[string]kind
	seen  map[identity]bool
	uids  map[types.UID]identity
}

// identity tells objects apart as the API server does.
type identity struct{ kind, namespace, name string }

func (i identity) String() string {
	if i.namespace == "" {
		return fmt.Sprintf("%s %s", i.kind, clip(i.name))
	}
	return fmt.Sprintf("%s %s/%s", i.kind, clip(i.namespace), clip(i.name))
}

func newCollector(limits Limits) *collector {
	return &collector{
		limits: limits, kinds: kinds(), seen: map[identity]bool{}, uids: map[types.UID]identity{},
		dump: &Dump{EndingNamespaces: map[string]bool{}, Ignored: map[string]int{}},
	}
}

// listMeta is what a list says of its items.
type listMeta struct{ APIVersion, Kind string }

func listOf(fields map[string]json.RawMessage) listMeta {
	var list listMeta
	// A field of another type says nothing; the list's end finds that it is missing.
	_ = kjson.Unmarshal(fields["apiVersion"], &list.APIVersion)
	_ = kjson.Unmarshal(fields["kind"], &list.Kind)
	return list
}

func listMetaOf(raw []byte) listMeta {
	fields := map[string]json.RawMessage{}
	_ = kjson.Unmarshal(raw, &fields) // as listOf
	return listOf(fields)
}

// head is what is looked at first.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Items json.RawMessage `json:"items"`
}

// next names the object that comes next, for errors.
func (c *collector) next() string { return ordinal(c.count+1, c.place) }

func ordinal(n int, place string) string {
	if place == "" {
		return fmt.Sprintf("object %d", n)
	}
	return fmt.Sprintf("object %d (%s)", n, place)
}

func (c *collector) truncated() error {
	return fmt.Errorf("the text ends in the middle, after %s: the file was cut short: write it again with %s", plural(c.count, "whole object"), Command)
}

func (c *collector) noObject() error {
	return fmt.Errorf("%s is plain text, not an object of Kubernetes: write the file with %s", c.next(), Command)
}

// item takes in an item of a list. Items of a typed list, such as a NodeList, take their kind from
// it.
func (c *collector) item(raw []byte, list listMeta) error {
	h, err := c.head(raw)
	if err != nil {
		return err
	}
	if isList(h.Kind) && (h.Kind == "List" || h.Items != nil) {
		return fmt.Errorf("%s is a %s inside a List: write the file with one command: %s", c.next(), clip(h.Kind), Command)
	}
	if kind := strings.TrimSuffix(list.Kind, "List"); h.Kind == "" && kind != "" {
		h.Kind, h.APIVersion = kind, list.APIVersion
	}
	return c.take(raw, h)
}

// add takes in an object that stands by itself.
func (c *collector) add(raw []byte) error {
	h, err := c.head(raw)
	if err != nil {
		return err
	}
	return c.take(raw, h)
}

func isList(kind string) bool { return strings.HasSuffix(kind, "List") }

// endList is called behind a list's last item, when all of its fields are known.
func (c *collector) endList(list listMeta) error {
	switch {
	case list.Kind == "":
		return c.truncated() // kubectl writes kind last
	case !isList(list.Kind):
		return fmt.Errorf("found a %s with items instead of a List: write the file with %s", clip(list.Kind), Command)
	default:
		return nil
	}
}

func (c *collector) head(raw []byte) (head, error) {
	var h head
	if len(raw) == 0 || raw[0] != '{' {
		return h, c.noObject()
	}
	if !utf8.Valid(raw) {
		return h, fmt.Errorf("%s is not UTF-8: write the file with %s", c.next(), Command)
	}
	if err := c.decode(raw, &h); err != nil {
		return h, err
	}
	return h, nil
}

// take looks at the kind, and keeps what says something about an upgrade.
func (c *collector) take(raw []byte, h head) error {
	if c.count >= c.limits.Objects {
		return fmt.Errorf("more than %d objects: leave out namespaces or kinds that the node group has nothing to do with", c.limits.Objects)
	}
	k, known := c.kinds[h.APIVersion+"/"+h.Kind]
	switch {
	case h.Kind == "":
		return fmt.Errorf("%s has no kind: write the file with %s", c.next(), Command)
	case !known:
		c.count++
		c.dump.Ignored[h.Kind]++
		return nil
	case h.Metadata.Name == "":
		return fmt.Errorf("%s is a %s without a name: give it metadata.name", c.next(), h.Kind)
	}
	id := identity{kind: h.Kind, name: h.Metadata.Name}
	if k.namespaced {
		id.namespace = h.Metadata.Namespace
		if id.namespace == "" {
			id.namespace = "default"
		}
	}
	if c.seen[id] {
		return fmt.Errorf("%s is %s, which was there before: every object may stand in the file once", c.next(), id)
	}
	c.seen[id] = true
	if k.keep != nil {
		if err := c.checkNumbers(raw); err != nil {
			return err
		}
		if err := k.keep(c, raw, id); err != nil {
			return err
		}
	}
	c.count++
	c.known++
	return nil
}

// decode reads an object as the API server would, without regard to fields that it does not know.
func (c *collector) decode(raw []byte, into any) error {
	if err := kjson.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %s: write the file with %s", c.next(), clip(err.Error()), Command)
	}
	return nil
}

// clip shortens what comes from the input to what a person reads.
func clip(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// finish looks at the whole.
func (c *collector) finish() (*Dump, error) {
	d := c.dump
	switch {
	case c.count == 0:
		return nil, fmt.Errorf("it is empty: write it with %s", Command)
	case c.known == 0:
		return nil, fmt.Errorf("found %s, but nothing of a cluster: write it with %s", tally(d.Ignored), Command)
	case len(d.Nodes) == 0:
		return nil, fmt.Errorf("found %s, but no nodes: write it with %s", plural(c.count, "object"), Command)
	}
	c.adopt()
	return d, nil
}

// tally names kinds with their numbers, the first few of them.
func tally(kinds map[string]int) string {
	const most = 3
	var parts []string
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		if i == most {
			parts = append(parts, "more")
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], clip(kind)))
	}
	return strings.Join(parts, ", ")
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// claim gives an object without a UID one, and finds two objects with the same.
func (c *collector) claim(uid types.UID, id identity) (types.UID, error) {
	if uid == "" {
		uid = madeUID(id)
	}
	if other, taken := c.uids[uid]; taken {
		return "", fmt.Errorf("%s is %s and has the uid of %s: every object has its own; leave it out and one is made", c.next(), id, other)
	}
	c.uids[uid] = id
	return uid, nil
}

// madeUID is the same whenever the same dump is read.
func madeUID(id identity) types.UID {
	return types.UID(strings.ToLower(id.kind) + "/" + id.namespace + "/" + id.name)
}
