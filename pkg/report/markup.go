package report

import (
	"html"
	"strings"
)

// markup is HTML that is complete and escaped. Only escapeText, element and constants make it.
type markup string

// attribute is an attribute of an element; its value is escaped when it is written.
type attribute struct{ name, value string }

// class returns the attribute that styles an element.
func class(name string) attribute { return attribute{"class", name} }

// escapeText returns a text, parts of which may come from a cluster, as text of HTML on one line. Characters that steer the reader's
// screen become question marks.
func escapeText(text string) markup {
	return markup(html.EscapeString(sanitizeCell(Plain, text)))
}

// element writes an element with its attributes and what is in it.
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

// textElement writes an element that holds a text only.
func textElement(name, text string, attributes ...attribute) markup {
	return element(name, attributes, escapeText(text))
}

// tableOf writes a table that scrolls sideways where the page is narrow. Columns from numbersFrom on are aligned to the right.
func tableOf(numbersFrom int, header []string, rows [][]string) markup {
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
