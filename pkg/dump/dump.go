package dump

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// Command returns the command that prints a dump. kubectl leaves out the kinds that the user may not list. Kinds that the
// command does not name may be in a dump, too.
func Command() string {
	return shell.Join([]string{"kubectl", "get", strings.Join(printedKinds(), ","), "-A", "-o", "json"})
}

// Script returns Command as lines that fit a narrow terminal. It writes dump.json.
func Script() string {
	script := "  KINDS="
	for i, kind := range printedKinds() {
		switch {
		case kind == "quota", kind == "mutatingwebhookconfigurations": // begin a new line
			script += "\n  KINDS=$KINDS,"
		case i > 0:
			script += ","
		}
		script += kind
	}
	return script + "\n  kubectl get $KINDS -A -o json > dump.json"
}

// printedKinds lists the kinds in Command, by the names that Command uses.
func printedKinds() []string {
	var names []string
	for _, kind := range inventory.Kinds() {
		if kind.Short != "" {
			names = append(names, kind.Short)
		}
	}
	return names
}

// Dump is a cluster at one moment. Its lists are in the order of the input.
type Dump struct {
	inventory.Objects
	// Ignored counts the objects of kinds that do not matter for an upgrade, by kind.
	Ignored map[string]int
	// Taken is the latest time in any object, zero if there is none.
	Taken time.Time
}

// Limits limit the input of Read. A zero field means its default.
type Limits struct {
	// JSON and YAML are the maximum size of the unpacked input in bytes. The defaults are 1 GiB for JSON and 64 MiB for YAML,
	// which needs thirty times its size in memory.
	JSON, YAML int64
	// Object is the maximum size of an object as JSON, in bytes. The default is 4 MiB, more than twice the limit of etcd.
	Object int64
	// Objects is the maximum number of objects. The default is 500,000, three times the pods of the largest cluster that
	// Kubernetes supports.
	Objects int
}

func (l Limits) orDefaults() Limits {
	return Limits{JSON: cmp.Or(l.JSON, 1<<30), YAML: cmp.Or(l.YAML, 64<<20), Object: cmp.Or(l.Object, 4<<20), Objects: cmp.Or(l.Objects, 500_000)}
}

// Read reads a whole dump. Objects without a UID get one made from kind, namespace and name, and so do references to their
// owners. Read returns an error in one line if the input is not a dump of a cluster: empty, cut short, too large, not UTF-8,
// packed twice, of other kinds, without nodes, with a List inside a List, with the same object twice or with an object without a
// name. It also returns the reader's own error.
//
// Read calls trim with each decoded object.
func Read(r io.Reader, limits Limits, trim func(object any)) (*Dump, error) {
	limits = limits.orDefaults()
	in, err := openInput(r)
	if err != nil {
		return nil, err
	}
	isJSON, err := detectJSON(in)
	if err != nil {
		return nil, err
	}
	c := newCollector(limits, trim)
	if isJSON {
		tooLarge := fmt.Errorf("more than %s of text: leave out namespaces and kinds that do not matter to the node group", formatSize(limits.JSON))
		err = c.readJSON(&bounded{in, limits.JSON, tooLarge}, metav1.TypeMeta{})
	} else {
		tooLarge := fmt.Errorf("more than %s of YAML, which must fit into memory: use JSON, which is read in parts: %s", formatSize(limits.YAML), Command())
		err = c.readYAML(&bounded{in, limits.YAML, tooLarge})
	}
	if err != nil {
		return nil, err
	}
	return c.completeDump()
}
