package dump

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// yamlReader splits YAML into documents, and a list into its items, by their lines alone. No
// library splits below the document, and kubectl writes a whole cluster as one, whose parsed form
// takes many times its size and tells no item's line. An item of a block sequence begins with a
// dash at the sequence's indentation, and everything that belongs to it is indented further (YAML
// 1.2, 8.2.1).
type yamlReader struct {
	c    *collector
	line int
	// rest is the document without its items, item the one being read.
	rest, item section
	// list is set from the line "items:" on to what the fields before it say; kubectl writes kind
	// behind the items.
	list *metav1.TypeMeta
	// inItems is true as long as items may come, with their dashes at indent, which is negative
	// until the first.
	inItems bool
	indent  int
}

// section is some lines of the input, from a line on.
type section struct {
	text bytes.Buffer
	line int
}

func (s *section) addLine(line int, text []byte) {
	if s.text.Len() == 0 {
		s.line = line
	}
	s.text.Write(text)
	s.text.WriteByte('\n')
}

// readAll reads documents of YAML.
func (y *yamlReader) readAll(m *meter) error {
	in := bufio.NewReaderSize(m, readAhead)
	for {
		text, err := in.ReadBytes('\n') // the meter ends a line that is too long
		switch y.line++; {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return y.endDocument()
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("%s: %w", y.c.nameNext(), err)
		case !utf8.Valid(text):
			return fmt.Errorf("%s: line %d is not UTF-8: write the file with %s", y.c.nameNext(), y.line, Command)
		}
		m.markDone(m.total)
		if err := y.takeLine(bytes.TrimRight(text, "\r\n")); err != nil {
			return err
		}
		if int64(max(y.item.text.Len(), y.rest.text.Len())) > m.limits.Object {
			return fmt.Errorf("%s: %w", y.c.nameNext(), refuseLarge(m.limits))
		}
	}
}

// takeLine puts one line where it belongs.
func (y *yamlReader) takeLine(text []byte) error {
	behind, isMarker := bytes.CutPrefix(text, []byte("---"))
	comment, isItems := bytes.CutPrefix(text, []byte("items:"))
	switch {
	case isMarker || string(text) == "...":
		err := y.endDocument()
		if isMarker && len(bytes.TrimSpace(behind)) > 0 {
			y.rest.addLine(y.line, behind)
		}
		return err
	case y.inItems:
		return y.takeItemLine(text)
	case isItems && isBlank(comment):
		raw, err := y.parseSection(&y.rest)
		list := typeOf(raw)
		y.list, y.inItems, y.indent = &list, true, -1
		return err
	default:
		y.rest.addLine(y.line, text)
		return nil
	}
}

// isBlank tells a line, or the end of one, that holds no value.
func isBlank(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || text[0] == '#'
}

// takeItemLine is takeLine below "items:".
func (y *yamlReader) takeItemLine(text []byte) error {
	inner := bytes.TrimLeft(text, " ")
	indent, isFirst := len(text)-len(inner), y.indent < 0
	switch {
	case isBlank(inner) && isFirst:
	case isBlank(inner), !isFirst && indent > y.indent:
		y.item.addLine(y.line, text)
	case isDash(inner) && (isFirst || indent == y.indent):
		return y.beginItem(text, indent)
	case isFirst && indent > 0:
		return fmt.Errorf("line %d: items is not a list: write the file with %s", y.line, Command)
	default: // the list's own next field
		y.inItems = false
		if err := y.endItem(); err != nil {
			return err
		}
		return y.takeLine(text)
	}
	return nil
}

func isDash(text []byte) bool { return string(text) == "-" || bytes.HasPrefix(text, []byte("- ")) }

// beginItem takes the line that an item begins with; a space in the place of its dash leaves the
// item as it stands.
func (y *yamlReader) beginItem(text []byte, indent int) error {
	err := y.endItem()
	y.indent, text[indent] = indent, ' '
	y.item.addLine(y.line, text)
	return err
}

// endItem hands on the item that is complete now.
func (y *yamlReader) endItem() error {
	if y.item.text.Len() == 0 {
		return nil
	}
	raw, err := y.parseSection(&y.item)
	y.item.text.Reset()
	if err != nil {
		return err
	}
	return y.c.addObject(raw, y.list)
}

func (y *yamlReader) endDocument() error {
	if err := y.endItem(); err != nil {
		return err
	}
	raw, err := y.parseSection(&y.rest)
	isList := y.list != nil
	y.rest.text.Reset()
	y.list, y.inItems = nil, false
	switch {
	case err != nil:
		return err
	case isList:
		return y.c.endList(typeOf(raw))
	default: // a list in flow style is read as such
		r := &jsonReader{c: y.c, dec: json.NewDecoder(bytes.NewReader(raw)), mark: func(int64) {}}
		return r.readAll()
	}
}

// parseSection turns a section into JSON, which names it in errors from then on.
func (y *yamlReader) parseSection(s *section) ([]byte, error) {
	if y.c.place = ""; s.line > 0 {
		y.c.place = fmt.Sprintf("line %d", s.line)
	}
	raw, err := yaml.YAMLToJSON(s.text.Bytes())
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "yaml: ")
		return nil, fmt.Errorf("%s is not YAML: %s (lines counted from there): write the file with %s", y.c.nameNext(), clipText(why), Command)
	}
	return raw, nil
}
