package report

import (
	"html"
	"strings"
)

// markup is complete and escaped HTML. Only escapeText, element and constants create it.
type markup string

// attribute is an attribute of an element. Its value is escaped when the element is written.
type attribute struct{ name, value string }

// class returns the class attribute of an element.
func class(name string) attribute { return attribute{"class", name} }

// escapeText returns a text as one line of escaped HTML. Parts of the text may come from a cluster, so control
// characters become question marks.
func escapeText(text string) markup {
	return markup(html.EscapeString(sanitizeCell(Plain, text)))
}

// element returns an element with its attributes and content.
func element(name string, attributes []attribute, inner ...markup) markup {
	var b strings.Builder
	b.WriteString("<" + name)
	for _, a := range attributes {
		b.WriteString(" " + a.name + `="` + string(escapeText(a.value)) + `"`)
	}
	b.WriteString(">")
	for _, part := range inner {
		b.WriteString(string(part))
	}
	b.WriteString("</" + name + ">")
	return markup(b.String())
}

// textElement returns an element that contains only a text.
func textElement(name, text string, attributes ...attribute) markup {
	return element(name, attributes, escapeText(text))
}

// tableElement returns a table that scrolls sideways on a narrow page. Columns from index numbersFrom on are
// aligned to the right.
func tableElement(numbersFrom int, header []string, rows [][]string) markup {
	line := func(cell string, texts []string) markup {
		cells := make([]markup, len(texts))
		for i, text := range texts {
			var attributes []attribute
			if i >= numbersFrom {
				attributes = []attribute{class("n")}
			}
			cells[i] = textElement(cell, text, attributes...)
		}
		return element("tr", nil, cells...) + "\n"
	}
	body := make([]markup, len(rows))
	for i, row := range rows {
		body[i] = line("td", row)
	}
	table := element("table", nil, element("thead", nil, line("th", header)), element("tbody", nil, body...))
	return element("div", []attribute{class("scroll")}, table)
}
