package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc (man 5 proc); it is 10 ms on all systems
// that Go runs on.
const clockTick = 10 * time.Millisecond

// family returns a process and its children.
func family(pid int) []int {
	all := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		data, _ := os.ReadFile(task) // #nosec G304 -- of /proc
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, family(child)...)
			}
		}
	}
	return all
}

// cpuTime is what a process and its children have used, to about 1 ms.
func cpuTime(pid int) (used time.Duration, err error) {
	for _, p := range family(pid) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p))
		for _, task := range tasks {
			data, err := os.ReadFile(task) // #nosec G304 -- of /proc
			if err != nil {
				continue // the thread has ended
			}
			first, _, _ := strings.Cut(string(data), " ")
			ns, err := strconv.ParseInt(first, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", task, err)
			}
			used += time.Duration(ns)
		}
		if len(tasks) == 0 {
			ticks, err := statTicks(p)
			if err != nil {
				return 0, err
			}
			used += time.Duration(ticks) * clockTick
		}
	}
	return used, nil
}

// statTicks are user and system time of /proc/PID/stat.
func statTicks(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return user + system, err
}

// residentBytes is the memory that a process and its children have in use.
func residentBytes(pid int) (bytes int64, err error) {
	for _, p := range family(pid) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				if err != nil {
					return 0, err
				}
				bytes += kib << 10
			}
		}
	}
	return bytes, nil
}

// pin keeps a process on one processor, with what it starts; a hint that cannot be
// had is done without.
func pin(pid, cpu int) {
	exec.Command("taskset", "-a", "-c", "-p", strconv.Itoa(cpu), strconv.Itoa(pid)).Run() //nolint:errcheck,noctx // see above // #nosec G204 -- numbers
}

// pinned makes a command begin on one processor, so that its runtime counts one.
func pinned(cmd *exec.Cmd, cpu int) *exec.Cmd {
	path, err := exec.LookPath("taskset")
	if err != nil {
		return cmd
	}
	cmd.Args = append([]string{path, "-c", strconv.Itoa(cpu), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = path
	return cmd
}

// openFiles raises the limit of open files and returns it.
func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	limit.Cur = limit.Max
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) //nolint:errcheck // then it stays as it is
	return int(min(limit.Cur, 1<<20))                // #nosec G115 -- bounded
}
