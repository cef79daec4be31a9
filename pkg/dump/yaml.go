package dump

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// yamlReader splits YAML into documents, and a list into its items, by their lines alone: a parser
// for the whole of a large list would need many times its size. An item of a block sequence begins
// with a dash at the sequence's indentation, and everything that belongs to it is indented further
// (YAML 1.2, 8.2.1).
type yamlReader struct {
	c *collector
	// rest is the document without its items; item the one being read, from the line itemAt.
	rest, item bytes.Buffer
	line       int
	itemAt     int
	restAt     int
	// within is true below the line "items:", with the dashes at indent, which is negative until
	// the first.
	within bool
	indent int
	listed bool
	// list is what the fields before the items say of it. kubectl writes kind behind them.
	list listMeta
}

// readYAML reads documents of YAML.
func (c *collector) readYAML(m *meter) error {
	y := &yamlReader{c: c}
	in := bufio.NewReaderSize(m, readAhead)
	for {
		text, err := y.next(in)
		if errors.Is(err, io.EOF) {
			return y.endDocument()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.next(), err)
		}
		m.markHere() // next has its own eye on the size of objects
		if err := y.take(text); err != nil {
			return err
		}
		if int64(max(y.item.Len(), y.rest.Len())) > c.limits.Object {
			return fmt.Errorf("%s: %w", c.next(), tooLarge(c.limits))
		}
	}
}

// next is the next line without its end; io.EOF comes after the last.
func (y *yamlReader) next(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if int64(len(line)+len(part)) > y.c.limits.Object {
			return nil, tooLarge(y.c.limits)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		y.line++
		line = bytes.TrimRight(line, "\r\n")
		if !utf8.Valid(line) {
			return nil, fmt.Errorf("line %d is not UTF-8: write the file with %s", y.line, Command)
		}
		return line, nil
	}
}

// take puts one line where it belongs.
func (y *yamlReader) take(text []byte) error {
	if bytes.HasPrefix(text, []byte("---")) || string(text) == "..." {
		err := y.endDocument()
		if rest := bytes.TrimPrefix(text, []byte("---")); len(rest) < len(text) && len(bytes.TrimSpace(rest)) > 0 {
			y.put(rest)
		}
		return err
	}
	if y.within {
		return y.takeWithin(text)
	}
	if key, comment, ok := strings.Cut(string(text), ":"); ok && key == "items" && blank(comment) {
		y.within, y.listed, y.indent = true, true, -1
		raw, err := y.parse(y.rest.Bytes(), y.restAt)
		y.list = listMetaOf(raw)
		return err
	}
	y.put(text)
	return nil
}

// blank is a line, or the end of one, that holds no value.
func blank(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || text[0] == '#'
}

// takeWithin is take below "items:".
func (y *yamlReader) takeWithin(text []byte) error {
	inner := bytes.TrimLeft(text, " ")
	indent := len(text) - len(inner)
	switch first := y.indent < 0; {
	case blank(string(inner)):
		y.item.Write(text)
	case isDash(inner) && (first || indent == y.indent):
		return y.beginItem(inner, indent)
	case first && indent > 0:
		return fmt.Errorf("line %d: items is not a list: write the file with %s", y.line, Command)
	case !first && indent > y.indent:
		y.item.Write(text)
	default: // the list's own next field
		y.within = false
		if err := y.endItem(); err != nil {
			return err
		}
		return y.take(text)
	}
	y.item.WriteByte('\n')
	return nil
}

func isDash(text []byte) bool { return string(text) == "-" || bytes.HasPrefix(text, []byte("- ")) }

// beginItem takes the line that an item begins with; a space in the place of its dash leaves the
// item as it stands.
func (y *yamlReader) beginItem(text []byte, indent int) error {
	if err := y.endItem(); err != nil {
		return err
	}
	y.indent, y.itemAt = indent, y.line
	y.item.WriteString(strings.Repeat(" ", indent+1))
	y.item.Write(text[1:])
	y.item.WriteByte('\n')
	return nil
}

func (y *yamlReader) put(text []byte) {
	if y.rest.Len() == 0 {
		y.restAt = y.line
	}
	y.rest.Write(text)
	y.rest.WriteByte('\n')
}

// endItem hands on the item that is complete now.
func (y *yamlReader) endItem() error {
	text := y.item.Bytes()
	defer y.item.Reset()
	if y.itemAt == 0 {
		return nil // comments before the first
	}
	raw, err := y.parse(text, y.itemAt)
	y.itemAt = 0
	if err != nil {
		return err
	}
	return y.c.item(raw, y.list)
}

func (y *yamlReader) endDocument() error {
	if err := y.endItem(); err != nil {
		return err
	}
	defer func() {
		y.rest.Reset()
		y.within, y.listed = false, false
	}()
	raw, err := y.parse(y.rest.Bytes(), y.restAt)
	if err != nil {
		return err
	}
	if y.listed {
		return y.c.endList(listMetaOf(raw))
	}
	return y.c.readJSON(bytes.NewReader(raw), nil) // a list in flow style is read as such
}

func (y *yamlReader) parse(text []byte, line int) ([]byte, error) {
	if y.c.place = ""; line > 0 {
		y.c.place = fmt.Sprintf("line %d", line)
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "yaml: ")
		return nil, fmt.Errorf("%s is not YAML: %s (lines counted from there): write the file with %s", y.c.next(), clip(why), Command)
	}
	return raw, nil
}
