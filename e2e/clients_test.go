package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A client is one row of the table.
type client struct {
	name string
	// Where the version is pinned: a folder under clients and the package in
	// its lock file, or a Go module.
	folder, pinned string
	tool           *tool
	// run has the session and returns the last text of each turn.
	run func(ctx context.Context, s *session) (answers []string, err error)
}

// A tool is what the model calls. It says "on shelf 7: THING".
type tool struct {
	name      string
	arguments func(thing string) string // as JSON
}

// toolOutput is what a tool has said in the request that follows its call.
func toolOutput(thing string) string { return "on shelf 7: " + thing }

// lookup is the function of clients that are libraries.
var lookup = &tool{"lookup", func(thing string) string { return object("thing", thing) }}

// shell is the tool of an agent that runs commands. The command is not what it
// prints, so that the output is told from the call.
func shell(name, key string, more ...string) *tool {
	return &tool{name, func(thing string) string {
		return object(append([]string{key, "echo on shelf $((3+4)): " + thing}, more...)...)
	}}
}

// object is a JSON object of keys and values.
func object(pairs ...string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return string(encode(m))
}

func allClients() []client {
	return []client{
		{"openai 7, stream helper", "openai-7", "openai", lookup, library("openai-7", "helper")},
		{"openai 7, events", "openai-7", "openai", lookup, library("openai-7", "events")},
		{"openai 6, stream helper", "openai-6", "openai", lookup, library("openai-6", "helper")},
		{"openai 6, events", "openai-6", "openai", lookup, library("openai-6", "events")},
		{"openai-go", "", "github.com/openai/openai-go/v3", lookup, goLibrary},
		{"@ai-sdk/openai", "ai-sdk", "@ai-sdk/openai", lookup, library("ai-sdk", "openai")},
		{"@ai-sdk/openai, store: false", "ai-sdk", "@ai-sdk/openai", lookup, library("ai-sdk", "openai-stateless")},
		{"@ai-sdk/xai", "ai-sdk", "@ai-sdk/xai", lookup, library("ai-sdk", "xai")},
		{"@openai/agents", "agents", "@openai/agents", lookup, library("agents")},
		{"codex", "codex", "@openai/codex", shell("exec_command", "cmd"), codex},
		{"pi", "pi", "@earendil-works/pi-coding-agent", shell("bash", "command"), pi},
		{"opencode", "opencode", "opencode-ai", shell("bash", "command", "description", "Looks it up"), opencode},
	}
}

func (c *client) version() (string, error) {
	if c.folder == "" {
		data, err := os.ReadFile("go.mod")
		if err != nil {
			return "", err
		}
		m := regexp.MustCompile(regexp.QuoteMeta(c.pinned) + ` v(\S+)`).FindSubmatch(data)
		if m == nil {
			return "", fmt.Errorf("go.mod: no %s", c.pinned)
		}
		return string(m[1]), nil
	}
	data, err := os.ReadFile("clients/package-lock.json")
	if err != nil {
		return "", err
	}
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return "", fmt.Errorf("package-lock.json: %w", err)
	}
	for _, folder := range []string{c.folder + "/", ""} { // as Node looks it up
		if p, ok := lock.Packages[folder+"node_modules/"+c.pinned]; ok {
			return p.Version, nil
		}
	}
	return "", fmt.Errorf("package-lock.json: no %s", c.pinned)
}

// A session is one client in one case.
type session struct {
	baseURL string // the proxy's
	headers map[string]string
	home    string // empty at first, and the only place that is written to
	out     string // where the client's output is kept
	gate    string // a URL that is asked before the second turn; may be empty
}

// command runs a program of the client in a folder and returns what it printed.
func (s *session) command(ctx context.Context, dir string, env []string, name string, args ...string) (stdout []byte, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + filepath.Dir(node()) + ":" + os.Getenv("PATH"),
		"HOME=" + s.home,
		"TERM=dumb",
		"E2E_BASE_URL=" + s.baseURL,
		"E2E_HEADERS=" + string(encode(s.headers)),
		"E2E_GATE=" + s.gate,
		"E2E_PROMPTS=" + string(encode(prompts)),
	}, env...)
	var outBuf, errBuf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &outBuf, &errBuf
	// What an agent has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("not done in time: %w", err)
	}
	if err != nil {
		err = fmt.Errorf("%w\nstderr: %s\nstdout: %s", err, tail(errBuf.Bytes()), tail(outBuf.Bytes()))
	}
	return outBuf.Bytes(), errors.Join(err, s.keep("stdout", outBuf.Bytes()), s.keep("stderr", errBuf.Bytes()))
}

// keep adds to a file under out.
func (s *session) keep(name string, data []byte) error {
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.out, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// file writes a file of the client's configuration under its home, and returns
// its path.
func (s *session) file(name, content string) (string, error) {
	path := filepath.Join(s.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(content), 0o644)
}

// work makes the folder in which an agent works.
func (s *session) work() (string, error) {
	dir := filepath.Join(s.home, "work")
	return dir, os.MkdirAll(dir, 0o755)
}

// library runs the client.mjs of a folder.
func library(folder string, args ...string) func(context.Context, *session) ([]string, error) {
	return func(ctx context.Context, s *session) ([]string, error) {
		stdout, err := s.command(ctx, filepath.Join("clients", folder), nil, node(), append([]string{"client.mjs"}, args...)...)
		return reported(stdout, err)
	}
}

func goLibrary(ctx context.Context, s *session) ([]string, error) {
	path, err := filepath.Abs("bin/openai-go")
	if err != nil {
		return nil, err
	}
	stdout, err := s.command(ctx, ".", nil, path)
	return reported(stdout, err)
}

// reported reads the answers from what a library's client printed.
func reported(stdout []byte, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	var report struct{ Answers []string }
	if err := json.Unmarshal(lastLine(stdout), &report); err != nil {
		return nil, fmt.Errorf("the report: %w\nstdout: %s", err, tail(stdout))
	}
	return report.Answers, nil
}

func codex(ctx context.Context, s *session) ([]string, error) {
	config := `model = "sim-1"
model_provider = "proxy"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.proxy]
name = "proxy"
base_url = "` + s.baseURL + `"
wire_api = "responses"
env_key = "E2E_KEY"
http_headers = {` + tomlTable(s.headers) + `}
`
	path, err := s.file("codex/config.toml", config)
	if err != nil {
		return nil, err
	}
	dir, err := s.work()
	if err != nil {
		return nil, err
	}
	env := []string{"CODEX_HOME=" + filepath.Dir(path), "E2E_KEY=e2e"}
	thread := ""
	var texts []string
	for _, prompt := range prompts {
		args := []string{modules("@openai/codex/bin/codex.js"), "exec"}
		if thread != "" {
			args = append(args, "resume")
		}
		args = append(args, "--skip-git-repo-check", "--json")
		if thread != "" {
			args = append(args, thread)
		}
		stdout, err := s.command(ctx, dir, env, node(), append(args, prompt)...)
		if err != nil {
			return texts, err
		}
		text, completed := "", false
		err = lines(stdout, func(event *codexEvent) {
			switch event.Type {
			case "thread.started":
				thread = event.ThreadID
			case "turn.completed":
				completed = true
			case "item.completed":
				if event.Item.Type == "agent_message" {
					text = event.Item.Text
				}
			}
		})
		if err != nil {
			return texts, err
		}
		if !completed {
			return texts, fmt.Errorf("no turn.completed\nstdout: %s", tail(stdout))
		}
		texts = append(texts, text)
	}
	return texts, nil
}

type codexEvent struct {
	Type     string
	ThreadID string `json:"thread_id"`
	Item     struct{ Type, Text string }
}

// tomlTable is the inside of an inline table.
func tomlTable(m map[string]string) string {
	var pairs []string
	for key, value := range m {
		pairs = append(pairs, fmt.Sprintf("%q = %q", key, value))
	}
	return strings.Join(pairs, ", ")
}

func pi(ctx context.Context, s *session) ([]string, error) {
	path, err := s.file("agent/models.json", string(encode(map[string]any{
		"providers": map[string]any{"proxy": map[string]any{
			"baseUrl": s.baseURL, "apiKey": "e2e", "api": "openai-responses", "headers": s.headers,
			"models": []any{map[string]any{
				"id": "sim-1", "name": "sim-1", "reasoning": true, "input": []string{"text"},
				"contextWindow": 200_000, "maxTokens": 8192,
				"cost": map[string]int{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
			}},
		}},
	})))
	if err != nil {
		return nil, err
	}
	dir, err := s.work()
	if err != nil {
		return nil, err
	}
	env := []string{"PI_CODING_AGENT_DIR=" + filepath.Dir(path), "PI_OFFLINE=1"}
	var texts []string
	for i, prompt := range prompts {
		args := []string{
			modules("@earendil-works/pi-coding-agent/dist/bundle/cli.js"),
			"--mode", "json", "--provider", "proxy", "--model", "sim-1",
		}
		if i > 0 {
			args = append(args, "--continue")
		}
		stdout, err := s.command(ctx, dir, env, node(), append(args, "-p", prompt)...)
		if err != nil {
			return texts, err
		}
		var content json.RawMessage
		stop := ""
		err = lines(stdout, func(event *piEvent) {
			if event.Type != "turn_end" {
				return
			}
			content, stop = event.Message.Content, event.Message.StopReason
		})
		if err != nil {
			return texts, err
		}
		if stop != "stop" {
			return texts, fmt.Errorf("the last turn stopped for %q\nstdout: %s", stop, tail(stdout))
		}
		var parts []struct{ Type, Text string }
		if err := json.Unmarshal(content, &parts); err != nil {
			return texts, fmt.Errorf("content of the last turn: %w", err)
		}
		text := ""
		for _, part := range parts {
			if part.Type == "text" {
				text += part.Text
			}
		}
		texts = append(texts, text)
	}
	return texts, nil
}

type piEvent struct {
	Type    string
	Message struct {
		StopReason string
		Content    json.RawMessage // text, in messages of no interest, or a list
	}
}

func opencode(ctx context.Context, s *session) ([]string, error) {
	config, err := s.file("opencode.json", string(encode(map[string]any{
		"autoupdate": false, "share": "disabled",
		"provider": map[string]any{"proxy": map[string]any{
			"npm": "@ai-sdk/openai", "name": "proxy",
			"options": map[string]any{"baseURL": s.baseURL, "apiKey": "e2e", "headers": s.headers},
			"models": map[string]any{"sim-1": map[string]any{
				"name": "sim-1", "reasoning": true, "tool_call": true,
				"limit": map[string]int{"context": 200_000, "output": 8192},
			}},
		}},
	})))
	if err != nil {
		return nil, err
	}
	dir, err := s.work()
	if err != nil {
		return nil, err
	}
	program, err := opencodeProgram()
	if err != nil {
		return nil, err
	}
	env := []string{"OPENCODE_CONFIG=" + config, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
	var texts []string
	for i, prompt := range prompts {
		args := []string{"run", "--format", "json", "--model", "proxy/sim-1"}
		if i > 0 {
			args = append(args, "--continue")
		}
		stdout, err := s.command(ctx, dir, env, program, append(args, prompt)...)
		if err != nil {
			return texts, err
		}
		text, reason := "", ""
		err = lines(stdout, func(event *opencodeEvent) {
			switch event.Type {
			case "text":
				text = event.Part.Text
			case "step_finish":
				reason = event.Part.Reason
			}
		})
		if err != nil {
			return texts, err
		}
		if reason != "stop" {
			return texts, fmt.Errorf("the last step ended for %q\nstdout: %s", reason, tail(stdout))
		}
		texts = append(texts, text)
	}
	return texts, nil
}

type opencodeEvent struct {
	Type string
	Part struct{ Text, Reason string }
}

// opencodeProgram finds the program in the package for this machine: the
// package opencode-ai would link it in an install script, and none is run.
func opencodeProgram() (string, error) {
	for _, kind := range []string{"-baseline", ""} { // the first runs on older processors, too
		path := modules("opencode-" + platform() + kind + "/bin/opencode")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("opencode is not installed for " + platform())
}

// modules is the path of a file that npm has installed.
func modules(name string) string {
	path, err := filepath.Abs(filepath.Join("clients/node_modules", name))
	if err != nil {
		panic(err) // there is no current folder
	}
	return path
}

// node is the Node of the package for this machine, or else the one on the PATH.
func node() string {
	path := modules("node-" + platform() + "/bin/node")
	if _, err := os.Stat(path); err != nil {
		return "node"
	}
	return path
}

// platform is how npm packages name this machine.
func platform() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return runtime.GOOS + "-" + arch
}

// lines decodes what an agent prints, an event a line.
func lines[T any](stdout []byte, each func(*T)) error {
	scanner := bufio.NewScanner(bytes.NewReader(stdout))
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		event := new(T)
		if err := json.Unmarshal(scanner.Bytes(), event); err != nil {
			return fmt.Errorf("line %.200q: %w", scanner.Text(), err)
		}
		each(event)
	}
	return scanner.Err()
}

func lastLine(b []byte) []byte {
	b = bytes.TrimSpace(b)
	return b[bytes.LastIndexByte(b, '\n')+1:]
}

// tail is the end of a text, as much as may be shown.
func tail(b []byte) string {
	const most = 3000
	if len(b) > most {
		return "… " + string(b[len(b)-most:])
	}
	return string(b)
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and lists of texts
	}
	return data
}
