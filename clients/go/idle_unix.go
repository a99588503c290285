//go:build unix

package sluice

import (
	"crypto/tls"
	"net"
	"syscall"
)

// isQuiet says that an idle connection is open and has nothing to read. One that
// the daemon has closed must not get a request, which could not be repeated.
func isQuiet(conn net.Conn) bool {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	with, is := conn.(syscall.Conn)
	if !is {
		return true
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	// Control, not Read: the deadline of the last call may have passed.
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	})
	return err == nil && quiet
}
