//go:build !unix

package sluice

import "net"

// isQuiet: elsewhere, a closed connection shows when it is used.
func isQuiet(net.Conn) bool { return true }
