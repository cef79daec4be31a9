package cast

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/emulator"
)

// Lengths of the picture in pixels.
const (
	cellWidth  = 8
	rowHeight  = 18
	margin     = 16
	titleBar   = 36
	screenWide = Columns * cellWidth
	screenHigh = Rows * rowHeight
	wide       = screenWide + 2*margin
	high       = titleBar + screenHigh + 2*margin
	// baseline is the distance of the letters' base from the top of their row.
	baseline = 14
)

// colors is the style of the picture, light and dark. Only colours that the tool uses have a rule: other text has the text's colour.
const colors = `svg{--back:#fff;--bar:#eaeef2;--edge:#d0d7de;--text:#1f2328;--dim:#59636e;--red:#cf222e;--green:#116329;--yellow:#7d4e00}
@media (prefers-color-scheme:dark){svg{--back:#0d1117;--bar:#21262d;--edge:#30363d;--text:#e6edf3;--dim:#9198a1;--red:#ff7b72;--green:#3fb950;--yellow:#d29922}}
text{font:13.3px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:var(--text);white-space:pre}
.back{fill:var(--back);stroke:var(--edge)}.bar{fill:var(--bar)}.dim{fill:var(--dim)}
.c31{fill:var(--red)}.c32{fill:var(--green)}.c33{fill:var(--yellow)}.b{font-weight:bold}
`

// SVG returns a picture that shows the frames one after the other without end. The title stands above them. The frames are below each
// other on a strip that moves. A viewer that does not move it, or whose user wants no motion, shows the last frame.
func SVG(title string, frames []Frame) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" xml:space="preserve">`+"\n", wide, high, wide, high)
	fmt.Fprintf(&out, "<title>%s</title>\n<style>\n%s%s</style>\n", escape(title), colors, animate(frames))
	rows, strip := drawStrip(frames)
	fmt.Fprintf(&out, "<defs>\n%s</defs>\n", rows)
	fmt.Fprintf(&out, `<rect class="back" x=".5" y=".5" width="%d" height="%d" rx="8"/>`+"\n", wide-1, high-1)
	fmt.Fprintf(&out, `<path class="bar" d="M1 %dV9a8 8 0 0 1 8-8H%da8 8 0 0 1 8 8V%dz"/>`+"\n", titleBar, wide-9, titleBar)
	fmt.Fprintf(&out, `<text class="dim" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", wide/2, titleBar/2+5, escape(title))
	fmt.Fprintf(&out, `<svg x="%d" y="%d" width="%d" height="%d" overflow="hidden">`+"\n", margin, titleBar+margin, screenWide, screenHigh)
	fmt.Fprintf(&out, `<g class="strip" transform="translate(0,%d)">`+"\n%s</g>\n</svg>\n</svg>\n", -screenHigh*max(0, len(frames)-1), strip)
	return out.Bytes()
}

// animate returns the rules that move the strip: a jump to each frame at its time.
func animate(frames []Frame) string {
	total := Length(frames)
	if total <= 0 {
		return ""
	}
	var rules strings.Builder
	rules.WriteString("@keyframes play{")
	var at float64
	for i, f := range frames {
		fmt.Fprintf(&rules, "%s%%{transform:translateY(%dpx)}", strconv.FormatFloat(100*at/total.Seconds(), 'f', 3, 64), -i*screenHigh)
		at += f.Time.Seconds()
	}
	fmt.Fprintf(&rules, "to{transform:translateY(%dpx)}}\n", -screenHigh*(len(frames)-1))
	fmt.Fprintf(&rules, "@media (prefers-reduced-motion:no-preference){.strip{animation:play %.2fs step-end infinite}}\n", total.Seconds())
	return rules.String()
}

// drawStrip returns the different rows of all frames, each with an id, and the frames, which refer to these rows.
func drawStrip(frames []Frame) (rows, strip string) {
	var texts, places strings.Builder
	ids := map[string]int{}
	for i, f := range frames {
		for r, spans := range f.Rows {
			text, cells := drawRow(spans)
			if cells == 0 {
				continue
			}
			id, known := ids[text]
			if !known {
				id = len(ids)
				ids[text] = id
				fmt.Fprintf(&texts, `<text id="r%d" textLength="%d">%s</text>`+"\n", id, cells*cellWidth, text)
			}
			fmt.Fprintf(&places, `<use href="#r%d" y="%d"/>`, id, i*screenHigh+r*rowHeight+baseline)
		}
		places.WriteString("\n")
	}
	return texts.String(), places.String()
}

// drawRow returns the text of a row with its colours, and its width in cells.
func drawRow(spans []emulator.Span) (text string, cells int) {
	var out strings.Builder
	for _, s := range spans {
		cells += s.Cells
		var classes []string
		if s.Style.Color != 0 {
			classes = append(classes, "c"+strconv.Itoa(s.Style.Color))
		}
		if s.Style.Bold {
			classes = append(classes, "b")
		}
		if len(classes) == 0 {
			out.WriteString(escape(s.Text))
			continue
		}
		fmt.Fprintf(&out, `<tspan class="%s">%s</tspan>`, strings.Join(classes, " "), escape(s.Text))
	}
	return out.String(), cells
}

// escape returns a text as it stands in XML. Characters that XML does not allow become U+FFFD.
func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder returns no error
	return out.String()
}
