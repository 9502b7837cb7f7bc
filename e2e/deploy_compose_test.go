package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func composeProject(t *testing.T, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{deployed("docker-compose.yml")}, cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// publicImage is one of the default registry, at a version.
var publicImage = regexp.MustCompile(`^[a-z]+/[a-z]+:v?\d+\.\d+\.\d+$`)

func TestCompose(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	if got, want := project.ServiceNames(), []string{"client", "grafana", "prometheus", "proxy", "upstream"}; !slices.Equal(got, want) {
		t.Fatalf("the services are %q, want %q", got, want)
	}
	for name, s := range project.Services {
		if s.Build == nil && !publicImage.MatchString(s.Image) {
			t.Errorf("%s: the image is %q, want NAME/NAME:VERSION", name, s.Image)
		}
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !s.ReadOnly || s.Restart == "" || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is to be read-only, without capabilities and new privileges, and restarted", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s on %q, want 127.0.0.1", name, p.Published, p.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: %s is to exist (%v) and to be mounted read-only", name, v.Source, err)
			}
		}
		for other, how := range s.DependsOn {
			// The proxy's check is the image's.
			if o := project.Services[other]; how.Condition == types.ServiceConditionHealthy && other != "proxy" && o.HealthCheck == nil {
				t.Errorf("%s waits until %s is healthy, which has no check", name, other)
			}
		}
	}

	proxy := project.Services["proxy"]
	if got := *proxy.Environment["DOOMPROXY_UPSTREAM"]; got != "http://upstream:3668/v1" {
		t.Errorf("without a setting the upstream is %s", got)
	}
	other := composeProject(t, "DOOMPROXY_UPSTREAM=https://api.example/v1").Services["proxy"]
	if got := *other.Environment["DOOMPROXY_UPSTREAM"]; got != "https://api.example/v1" {
		t.Errorf("the upstream is %s, want the one that is set", got)
	}
	// What these files say has to fit together.
	for path, text := range map[string]string{
		deployed("prometheus", "prometheus.yml"):                             `targets: ["proxy:3667"]`,
		deployed("grafana", "provisioning", "datasources", "prometheus.yml"): "url: http://prometheus:9090",
		deployed("grafana", "provisioning", "dashboards", "doomproxy.yml"):   "path: /etc/grafana/dashboards",
	} {
		if !strings.Contains(readFile(t, path), text) {
			t.Errorf("%s has no %q", path, text)
		}
	}
}

// The proxy, the upstream and the client do outside of containers what the file
// has them do.
func TestComposeTrial(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	args := slices.Clone(project.Services["upstream"].Command)
	args[slices.Index(args, "--listen")+1] = "127.0.0.1:0"
	upstream := start(t, io.Discard, args...)(`base URL +(\S+)`)

	env := environment(project.Services["proxy"], "DOOMPROXY_UPSTREAM", upstream)
	r := &rig{log: new(lockedBuffer)}
	served, _ := startIn(t, t.TempDir(), r.log, env, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	r.baseURL, r.admin = served(`base URL +(\S+)`), served(`admin +(\S+)`)

	client := project.Services["client"]
	ctx := context.WithoutCancel(t.Context())
	cmd := exec.CommandContext(ctx, client.Entrypoint[0], append(slices.Clone(client.Entrypoint[1:]), client.Command...)...)
	cmd.Env = append(environment(client, "BASE_URL", r.baseURL), "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the agents of the shell end with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
		cmd.Wait()                                      //nolint:errcheck // it was killed
	})
	waitFor(t, "recoveries of both models", func() bool {
		m := r.metrics(t)
		return m.sum("doomproxy_doom_aborts_total", `model="trial-large"`) > 0 && m.sum("doomproxy_doom_aborts_total", `model="trial-small"`) > 0 &&
			m.sum("doomproxy_recoveries_total", `outcome="recovered"`) > 0
	})
	if log := string(r.log.take()); strings.Contains(log, "unknown environment variable") {
		t.Errorf("the proxy does not know all of its environment:\n%s", log)
	}
}

// environment is that of a service, with one variable set to something else.
func environment(s types.ServiceConfig, name, value string) (env []string) {
	for n, v := range s.Environment {
		if n == name {
			v = &value
		}
		env = append(env, fmt.Sprintf("%s=%s", n, *v))
	}
	return env
}
