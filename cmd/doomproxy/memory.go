package main

import (
	"runtime/debug"
)

// What the garbage collector is told, unless the environment tells it otherwise. It
// begins anew when there is half as much garbage as memory in use, not as much: what
// thousands of open streams need is memory in use. But a proxy with little to do has
// so little in use that it would begin hundreds of times a second; so some memory
// counts as in use that nobody touches, and that the system therefore never gives.
const (
	collectAt = 50 // percent
	ballast   = 24 << 20
)

// tuneMemory sets the collector and returns what is to be kept as long as that is to
// hold. GOGC and GOMEMLIMIT of the environment win.
func (a *app) tuneMemory() []byte {
	if a.getenv("GOGC") != "" || a.getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(collectAt)
	return make([]byte, ballast)
}
