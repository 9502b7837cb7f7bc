package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat (man 5 proc): USER_HZ, which is
// 100 on all systems that Go runs on.
const clockTick = 10 * time.Millisecond

// family returns a process and its children: nginx works in one.
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

// cpuTime is what a process and its children have used. The scheduler's account
// counts nanoseconds, and is brought up to date each tick; where it is not kept,
// user and system time count ticks.
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

// statTicks are user and system time of a process.
func statTicks(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in front is in brackets, and may hold anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: got %d fields, want 13 or more behind the name", pid, len(fields))
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

// canPin reports whether a process can be kept on a processor.
func canPin(ctx context.Context, cpu int) bool {
	return exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(cpu), "true").Run() == nil // #nosec G204 -- a number
}

// pin keeps a process on a processor, with what it starts.
func pin(ctx context.Context, pid, cpu int) error {
	return exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", strconv.Itoa(cpu), strconv.Itoa(pid)).Run() // #nosec G204 -- numbers
}

// pinned makes a program begin on a processor, so that its runtime sees but one.
func pinned(cpu int, path string, args []string) (string, []string) {
	return "taskset", append([]string{"-c", strconv.Itoa(cpu), path}, args...)
}

// openFiles raises the number of files that a process may have open, to want if
// that is allowed, and returns what it is.
func openFiles(want int) int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return want
	}
	// Without a call Go gives what it starts the limit that it was started with.
	more := uint64(max(want, 0)) // #nosec G115 -- not negative
	raised := syscall.Rlimit{Cur: max(more, limit.Cur), Max: max(more, limit.Max)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) != nil { // only root raises Max
		raised = syscall.Rlimit{Cur: limit.Max, Max: limit.Max}
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) // then it stays as it is
	}
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int(min(limit.Cur, 1<<30)) // #nosec G115 -- bounded
}

// processor is the name of the machine's.
func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
