//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errNoProc is why CPU time and memory are missing in the tables.
var errNoProc = fmt.Errorf("CPU time and memory are read from Linux' /proc: %w", errors.ErrUnsupported)

func cpuTime(int) (time.Duration, error)  { return 0, errNoProc }
func residentBytes(int) (int64, error)    { return 0, errNoProc }
func canPin(context.Context, int) bool    { return false }
func pin(context.Context, int, int) error { return errors.ErrUnsupported }
func openFiles(want int) int              { return want } // Go's runtime raises the limit by itself
func processor() string                   { return "unknown processor" }

func pinned(_ int, path string, args []string) (string, []string) { return path, args }
