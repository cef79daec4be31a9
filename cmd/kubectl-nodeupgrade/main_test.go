package main

import (
	"os"
	"runtime"
	"testing"
)

// collectionsAtStart is the number of garbage collections before main.
var collectionsAtStart = func() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumGC
}()

func TestNoGarbageIsCollectedBeforeMain(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set")
	}
	if collectionsAtStart > 0 {
		t.Errorf("%d garbage collections before main", collectionsAtStart)
	}
}
