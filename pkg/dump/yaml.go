package dump

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// readYAML reads documents of YAML, each whole.
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
			raw, err = yaml.YAMLToJSON(text)
		case !errors.As(err, &syntax):
			return fmt.Errorf("document %d: %w", n, err)
		}
		if err != nil {
			why := strings.TrimPrefix(err.Error(), "yaml: ")
			return fmt.Errorf("document %d is not YAML: %s: write the file with %s", n, clipText(why), Command)
		}
		if _, rest, ended := bytes.Cut(text, []byte("\n...\n")); ended && len(bytes.TrimSpace(rest)) > 0 {
			return fmt.Errorf("document %d has text behind its end: put --- between documents", n)
		}
		if err := c.readJSON(bytes.NewReader(raw), typeOf(raw)); err != nil {
			return err
		}
	}
}
