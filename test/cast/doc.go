// Package cast records commands on a terminal and draws the recording as an animated SVG without scripts.
package cast
