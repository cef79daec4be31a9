//go:build !linux

package controlplane

import "syscall"

// processAttributes has no death signal here: a caller that is killed leaves its cluster running.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
