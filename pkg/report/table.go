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

// Style is how a table is drawn.
type Style int

const (
	// Plain is kubectl's look: columns and no lines.
	Plain Style = iota
	// Markdown is a table that code forges render.
	Markdown
)

// WriteTable draws rows under a header. Cells may come from the cluster: what a terminal or
// Markdown would take as an instruction is made harmless.
func WriteTable(w io.Writer, style Style, header []string, rows [][]string) error {
	var text strings.Builder
	table := tablewriter.NewTable(&text, tablewriter.WithRenderer(selectRenderer(style)), tablewriter.WithConfig(tableConfig(style)))
	table.Header(header)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = sanitizeCell(style, cell)
		}
		if err := table.Append(cells); err != nil {
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

func tableConfig(style Style) tablewriter.Config {
	padding := tw.Padding{Right: "   ", Overwrite: true}
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

// page is written part by part. Once one could not be written, err says why, and no other is.
type page struct {
	w     io.Writer
	style Style
	err   error
}

// addTable adds what WriteTable draws.
func (p *page) addTable(header []string, rows [][]string) {
	if p.err == nil {
		p.err = WriteTable(p.w, p.style, header, rows)
	}
}

// addLines adds lines of which parts may come from the cluster, as harmless as cells. Markdown
// would make one line of those that follow each other: each but the last ends with a break.
func (p *page) addLines(lines ...string) {
	for i, line := range lines {
		text := sanitizeCell(p.style, line)
		if p.style == Markdown && line != "" && i+1 < len(lines) && lines[i+1] != "" {
			text += `\`
		}
		if p.err == nil {
			_, p.err = fmt.Fprintln(p.w, text)
		}
	}
}

// sanitizeCell takes line breaks and characters that steer a terminal out of a cell, and has
// Markdown take the rest as text.
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

// withPrefix is the text behind a prefix, and nothing where there is no text.
func withPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Parenthesize is a text behind a space and in parentheses, and nothing where there is no text.
func Parenthesize(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
