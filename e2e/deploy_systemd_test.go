package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// maxExposure is the level that systemd-analyze gives the unit at most, in tenths.
// Of 100 it would be an ordinary service, above 20 it is no longer "OK".
const maxExposure = "15"

func TestSystemd(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs("bin/doomproxy")
	if err != nil {
		t.Fatal(err)
	}
	unit := readFile(t, deployed("systemd", "doomproxy.service"))
	const installed = "/usr/local/bin/doomproxy"
	if !strings.Contains(unit, "ExecStart="+installed+" serve\n") {
		t.Fatalf("the unit does not start %s", installed)
	}
	path := filepath.Join(t.TempDir(), "doomproxy.service")
	write(t, path, strings.ReplaceAll(unit, installed, program))
	// An unknown key is only told of.
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	command(t, "systemd-analyze", "security", "--offline=yes", "--threshold="+maxExposure, path)

	keys := map[string]string{}
	for line := range strings.Lines(unit) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			keys[key] = value
		}
	}
	for key, want := range map[string]string{
		"ExecReload": "/bin/kill -HUP $MAINPID", "DynamicUser": "yes", "StateDirectory": "doomproxy",
		"ProtectSystem": "strict", "NoNewPrivileges": "yes", "Restart": "on-failure",
		"EnvironmentFile": "-/etc/doomproxy/doomproxy.env",
	} {
		if keys[key] != want {
			t.Errorf("%s=%s, want %s", key, keys[key], want)
		}
	}
	grace, err := time.ParseDuration(strings.TrimPrefix(keys["Environment"], "DOOMPROXY_SHUTDOWN_GRACE="))
	if err != nil {
		t.Fatal(err)
	}
	stop, err := time.ParseDuration(keys["TimeoutStopSec"] + "s")
	if err != nil || grace < 10*time.Minute || stop < grace+5*time.Second {
		t.Errorf("it is killed after %v, %v, want more than its grace of %v", stop, err, grace)
	}

	env := []string{keys["Environment"]}
	for line := range strings.Lines(readFile(t, deployed("systemd", "doomproxy.env"))) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			env = append(env, line)
		}
	}
	wantEnvironment(t, env)
}
