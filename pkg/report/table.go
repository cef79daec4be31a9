package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// Style is the format of a table.
type Style int

const (
	// Plain is the format of kubectl: columns without lines.
	Plain Style = iota
	// Markdown is a Markdown table.
	Markdown
)

// WriteTable writes rows under a header. It escapes the cells for terminals and Markdown, because they may
// come from the cluster.
func WriteTable(w io.Writer, style Style, header []string, rows [][]string) error {
	return drawTable(w, style, plainGap, header, sanitizeRows(style, rows))
}

func sanitizeRows(style Style, rows [][]string) [][]string {
	clean := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = sanitizeCell(style, cell)
		}
		clean = append(clean, cells)
	}
	return clean
}

// plainGap is the number of cells between two columns.
const plainGap = 3

// drawTable writes cells unchanged, with between cells between two columns. A cell with line breaks takes
// several lines. An empty header is not written.
func drawTable(w io.Writer, style Style, between int, header []string, rows [][]string) error {
	var text strings.Builder
	table := tablewriter.NewTable(&text, tablewriter.WithRenderer(selectRenderer(style)), tablewriter.WithConfig(tableConfig(style, between)))
	if len(header) > 0 {
		table.Header(header)
	}
	for _, row := range rows {
		if err := table.Append(row); err != nil {
			return fmt.Errorf("drawing a table: %w", err)
		}
	}
	if err := table.Render(); err != nil {
		return fmt.Errorf("drawing a table: %w", err)
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func selectRenderer(style Style) tw.Renderer {
	if style == Markdown {
		return renderer.NewMarkdown()
	}
	return renderer.NewBlueprint(tw.Rendition{
		Borders: tw.BorderNone,
		Symbols: tw.NewSymbols(tw.StyleNone),
		Settings: tw.Settings{
			Separators: tw.SeparatorsNone,
			Lines:      tw.LinesNone,
		},
	})
}

func tableConfig(style Style, between int) tablewriter.Config {
	padding := tw.Padding{Right: strings.Repeat(" ", between), Overwrite: true}
	if style == Markdown {
		padding = tw.Padding{Left: " ", Right: " ", Overwrite: true}
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
		Padding:    tw.CellPadding{Global: padding},
	}
	return tablewriter.Config{Header: cell, Row: cell}
}

// sanitizeCell replaces line breaks and tabs with spaces, and other control characters with question marks.
// For Markdown it also escapes the characters that have a meaning there.
func sanitizeCell(style Style, cell string) string {
	cell = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || (r >= 0x7f && r <= 0x9f) || unicode.Is(unicode.Bidi_Control, r):
			return '?'
		default:
			return r
		}
	}, cell)
	if style == Markdown {
		cell = strings.NewReplacer(
			`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "~", `\~`, "`", "\\`", "[", `\[`,
		).Replace(cell)
	}
	return cell
}

// withPrefix returns the text with a prefix, or "" if the text is empty.
func withPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Parenthesize returns the text in parentheses after a space, or "" if the text is empty.
func Parenthesize(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
