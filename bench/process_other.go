//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

// errNoProc is why CPU time and memory are missing in the tables.
var errNoProc = errors.New("needs /proc of Linux")

func cpuTime(int) (time.Duration, error)    { return 0, errNoProc }
func residentBytes(int) (int64, error)      { return 0, errNoProc }
func pin(int, int)                          {}
func pinned(cmd *exec.Cmd, _ int) *exec.Cmd { return cmd }
func openFiles() int                        { return 1024 }
