package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// maxImage bounds the image's size, in bytes. It is little more than the program.
const maxImage = 40 << 20

// imageUser is who the program runs as in the image.
const imageUser = 65532

// image is the runtime stage of the Dockerfile, built and mounted.
type image struct {
	Config struct {
		User         string
		Env          []string
		Entrypoint   []string
		Cmd          []string
		ExposedPorts map[string]any
		Labels       map[string]string
		Healthcheck  struct{ Test []string }
	}
	root string // where its files are
}

// buildImage makes the image without the stage that compiles: that needs another
// image, which is not here. What it would make is made by its own command, and
// takes the place of the stage as a folder. The certificates are ca.
func buildImage(t *testing.T, ca []byte) *image {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("buildah and chroot need root")
	}
	stage := t.TempDir()
	out := filepath.Join(stage, "out")
	dockerfile := readFile(t, deployed("Dockerfile"))
	var ran int
	for line := range strings.Lines(dockerfile) {
		run, ok := strings.CutPrefix(line, "RUN ")
		if !ok || strings.HasPrefix(run, "go mod download") {
			continue
		}
		ran++
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(run, "/out/", out+"/"))
		cmd.Dir = ".." // as WORKDIR and COPY make it
		cmd.Env = append(os.Environ(), "VERSION=v0.0.7", "COMMIT=c0ffee", "TARGETOS=", "TARGETARCH=")
		if msg, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", run, err, msg)
		}
	}
	if ran != 2 {
		t.Fatalf("the Dockerfile has %d lines of RUN besides go mod download, want 2", ran)
	}
	certificates := filepath.Join(stage, "etc", "ssl", "certs")
	if err := os.MkdirAll(certificates, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(certificates, "ca-certificates.crt"), ca, 0o644); err != nil {
		t.Fatal(err)
	}

	store := t.TempDir()
	buildah := func(args ...string) string {
		t.Helper()
		return command(t, "buildah", append([]string{"--root", store + "/root", "--runroot", store + "/run", "--storage-driver", "vfs"}, args...)...)
	}
	buildah("build", "--isolation", "chroot", "--format", "docker", "--target", "runtime", "--build-context", "build="+stage,
		"--build-arg", "VERSION=v0.0.7", "--build-arg", "COMMIT=c0ffee", "--tag", "doomproxy", "--file", deployed("Dockerfile"), t.TempDir())
	var inspected struct{ Docker *image }
	if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", "doomproxy")), &inspected); err != nil {
		t.Fatal(err)
	}
	// With vfs that is a folder, and nothing has to be unmounted.
	inspected.Docker.root = buildah("mount", buildah("from", "doomproxy"))
	return inspected.Docker
}

// command prepares a run of the image: its files, its user, its environment.
func (im *image) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), im.Config.Entrypoint[0], args...)
	cmd.Dir = "/"
	cmd.Env = append(slices.Clone(im.Config.Env), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: im.root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	return cmd
}

func TestImage(t *testing.T) {
	t.Parallel()
	// An API whose certificate nobody but the image's bundle vouches for.
	r := upstreamAlone(t)
	api, err := url.Parse(r.upstream)
	if err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(api))
	t.Cleanup(secure.Close)
	im := buildImage(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))

	t.Run("configuration", im.wantConfig)
	t.Run("files", im.wantFiles)
	t.Run("version", func(t *testing.T) {
		out, err := im.command(t, nil, "version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "v0.0.7") || !strings.Contains(string(out), "c0ffee") {
			t.Errorf("version printed %q, %v, want v0.0.7 and c0ffee", out, err)
		}
	})
	t.Run("serve", func(t *testing.T) { im.serve(t, r, secure.URL+"/v1") })
}

func (im *image) wantConfig(t *testing.T) {
	c := im.Config
	for _, field := range []struct {
		name      string
		got, want any
	}{
		{"user", c.User, fmt.Sprintf("%d:%[1]d", imageUser)},
		{"entrypoint", c.Entrypoint, []string{"/doomproxy"}},
		{"command", c.Cmd, []string{"serve"}},
		{"health check", c.Healthcheck.Test, []string{"CMD", "/doomproxy", "healthcheck"}},
		{"ports", len(c.ExposedPorts), 2},
		{"version", c.Labels["org.opencontainers.image.version"], "v0.0.7"},
		{"revision", c.Labels["org.opencontainers.image.revision"], "c0ffee"},
		{"source", c.Labels["org.opencontainers.image.source"], "https://github.com/doomproxy/doomproxy"},
		{"licence", c.Labels["org.opencontainers.image.licenses"], "Apache-2.0"},
	} {
		if got, want := fmt.Sprintf("%q", field.got), fmt.Sprintf("%q", field.want); got != want {
			t.Errorf("%s is %s, want %s", field.name, got, want)
		}
	}
	for _, want := range []string{"DOOMPROXY_LISTEN=:3666", "DOOMPROXY_ADMIN_LISTEN=:3667", "STATE_DIRECTORY=/var/lib/doomproxy"} {
		if !slices.Contains(c.Env, want) {
			t.Errorf("the environment is %q, want %s in it", c.Env, want)
		}
	}
}

// Nothing is in the image but the program, the certificates and a folder of its
// user's.
func (im *image) wantFiles(t *testing.T) {
	var files []string
	size := int64(0)
	err := filepath.WalkDir(im.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		files = append(files, strings.TrimPrefix(path, im.root))
		return nil
	})
	if want := []string{"/doomproxy", "/etc/ssl/certs/ca-certificates.crt"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("the files are %q, %v, want %q", files, err, want)
	}
	if size > maxImage {
		t.Errorf("the image has %d bytes, want %d at most", size, maxImage)
	}
	info, err := os.Stat(filepath.Join(im.root, "var/lib/doomproxy"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != imageUser || info.Mode().Perm() != 0o700 {
		t.Errorf("the state folder is %v of user %d, want rwx------ of %d", info.Mode(), owner, imageUser)
	}
}

// serve runs the image's own command in front of an API, and looks after it as an
// orchestrator does.
func (im *image) serve(t *testing.T, r *rig, upstream string) {
	agents, admin := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	env := []string{"DOOMPROXY_LISTEN=" + agents, "DOOMPROXY_ADMIN_LISTEN=" + admin}
	// As a volume would bring it.
	config := filepath.Join(im.root, "etc/doomproxy/config.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("upstreams: {default: {url: "+strconv.Quote(upstream)+"}}"), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := im.command(t, env, im.Config.Cmd...)
	cmd.Stderr = &log
	healthy := func() bool { return im.command(t, env, im.Config.Healthcheck.Test[2:]...).Run() == nil }
	if healthy() {
		t.Error("it is healthy before it runs")
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "/readyz", func() bool {
		res, err := http.Get("http://" + admin + "/readyz") //nolint:noctx // of this test
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	if !healthy() {
		t.Error("it is ready, and not healthy")
	}
	r.play(t, []any{map[string]any{"loop": map[string]any{"after": 3}}, map[string]any{"message": "Here it is."}})
	answer := fetch(t, http.MethodPost, "http://"+agents+"/v1/responses", []byte(`{"model":"m","stream":true,"input":"hi"}`))
	if !bytes.Contains(answer, []byte("resample=1")) || !bytes.Contains(answer, []byte("Here it is.")) {
		t.Errorf("no recovery, but\n%s", tail(answer))
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended: %v\n%s", err, log.String())
	}
	// What was cut is remembered in the only place that can be written to.
	if ledgers, err := filepath.Glob(filepath.Join(im.root, "var/lib/doomproxy/ledger-*.db")); err != nil || len(ledgers) != 1 {
		t.Errorf("the state folder has the ledgers %q, %v, want one", ledgers, err)
	}
	if bytes.Contains(log.Bytes(), []byte("unknown environment variable")) {
		t.Errorf("it does not know all of its environment:\n%s", log.String())
	}
}
