// Package firstgc delays the first garbage collection of the process.
//
// Before main starts, the imported packages allocate 4 MB: types, schemas and regular expressions that the process keeps. At this
// size Go starts its first collection, which takes a tenth of the time of a short command and frees nearly nothing. The Go
// compiler delays its first collection in the same way.
//
// Go initializes a package only after the packages that it imports (Go specification, "Program initialization"). This package
// imports nearly none, so it comes before the packages of AWS and Kubernetes, which allocate. A test checks that.
package firstgc

import (
	"os"
	"runtime"
	"runtime/debug"
)

// percent is the GOGC value until the first collection ends. A heap without a previous collection may grow to 4 MB at GOGC=100, and
// to 16 MB at this value.
const percent = 400

func init() {
	if os.Getenv("GOGC") == "" {
		delay()
	}
}

// delay delays the next collection. When this collection has ended, the present GOGC value applies again.
func delay() {
	before := debug.SetGCPercent(percent)
	garbage := new([64]byte)
	runtime.AddCleanup(garbage, func(before int) { debug.SetGCPercent(before) }, before)
}
