//go:build !linux

package controlplane

import "syscall"

// processAttributes sets no death signal on this system. If the caller is killed, its cluster keeps running.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
