package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// ahead is how many seconds the wall clock is ahead.
var ahead = settableBy("TEST_CLOCK_AHEAD")

// setNow returns the result of runtimeNow with the wall clock set ahead. The monotonic clock and all timers stay as they are.
func setNow() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = runtimeNow()
	return sec + ahead.Load(), nsec, mono
}

// settableBy returns the number in the file that the variable names, or 0 without the variable. The file is mapped into memory, so that a
// write to the file sets the clock at once. The clock cannot read the file instead: timers read the clock where nothing may block.
func settableBy(variable string) *atomic.Int64 {
	name, ok := syscall.Getenv(variable)
	if !ok {
		return new(atomic.Int64)
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("opening " + name + " of " + variable + ": " + err.Error())
	}
	defer syscall.Close(fd)
	memory, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("mapping " + name + " of " + variable + ": " + err.Error())
	}
	return (*atomic.Int64)(unsafe.Pointer(&memory[0]))
}
