package dump

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// readYAML reads YAML documents, each as a whole.
func (c *collector) readYAML(in io.Reader) error {
	documents := kyaml.NewYAMLReader(bufio.NewReader(in))
	for n := 1; ; n++ {
		var raw []byte
		var syntax kyaml.YAMLSyntaxError
		text, err := documents.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			if err := checkAliases(text, c.limits.Object); err != nil {
				return fmt.Errorf("document %d %w", n, err)
			}
			raw, err = yaml.YAMLToJSON(text)
		case !errors.As(err, &syntax):
			return fmt.Errorf("document %d: %w", n, err)
		}
		if err != nil {
			why := strings.TrimPrefix(err.Error(), "yaml: ")
			return fmt.Errorf("document %d is not YAML: %s: write the file with %s", n, clipText(why), Command())
		}
		if _, rest, ended := bytes.Cut(text, []byte("\n...\n")); ended && len(bytes.TrimSpace(rest)) > 0 {
			return fmt.Errorf("document %d has text after its end: put --- between documents", n)
		}
		if err := c.readJSON(bytes.NewReader(raw), listTypeOf(raw)); err != nil {
			return err
		}
	}
}

// anchor matches a possible anchor. A document without anchors has no aliases.
var anchor = regexp.MustCompile(`(^|[\s,\[{])&[^\s,\[\]{}]`)

// checkAliases returns an error if the aliases of a document would make it larger by more than most bytes. An alias may repeat
// text that contains other aliases.
func checkAliases(text []byte, most int64) error {
	if !anchor.Match(text) {
		return nil
	}
	var document goyaml.Node
	e := expansion{sizes: map[*goyaml.Node]int64{}, most: int64(len(text)) + most}
	// The conversion to JSON reports documents that cannot be parsed.
	if goyaml.Unmarshal(text, &document) == nil && e.measure(&document) > e.most {
		return fmt.Errorf("its YAML aliases expand to more than %s: write the file with %s", formatSize(most), Command())
	}
	return nil
}

// expansion has the known sizes of YAML nodes with their aliases expanded. A node may have at most the size most.
type expansion struct {
	sizes map[*goyaml.Node]int64
	most  int64
}

// measure returns the size of a node. If the node is larger than most or contains itself, the result is larger than most.
func (e expansion) measure(n *goyaml.Node) int64 {
	if n.Kind == goyaml.AliasNode {
		n = n.Alias
	}
	if size, measured := e.sizes[n]; measured {
		return size
	}
	e.sizes[n] = e.most + 1 // in case an alias inside the node refers to it
	size := int64(len(n.Value)) + 1
	for _, part := range n.Content {
		size = min(size+e.measure(part), e.most+1)
	}
	e.sizes[n] = size
	return size
}
