package report

import (
	"fmt"
	"io"
	"strings"

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

// WriteTable draws rows under a header. Cells may come from the cluster: what a terminal or Markdown
// would take as an instruction is made harmless.
func WriteTable(w io.Writer, style Style, header []string, rows [][]string) error {
	var text strings.Builder
	table := tablewriter.NewTable(&text, tablewriter.WithRenderer(rendererOf(style)), tablewriter.WithConfig(look()))
	table.Header(header)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = clean(style, cell)
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

func rendererOf(style Style) tw.Renderer {
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

func look() tablewriter.Config {
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: "   ", Overwrite: true}},
	}
	return tablewriter.Config{Header: cell, Row: cell}
}

// clean takes line breaks and control characters out of a cell, and the bar that ends a Markdown cell.
func clean(style Style, cell string) string {
	cell = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || (r >= 0x7f && r <= 0x9f):
			return '?'
		default:
			return r
		}
	}, cell)
	if style == Markdown {
		cell = strings.ReplaceAll(cell, "|", `\|`)
	}
	return cell
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
