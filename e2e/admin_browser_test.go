package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A browser is a headless Chromium with one tab. It knows no host but this
// machine: 127.0.0.1, localhost, and rebound.example, which is a name that
// somebody else made mean this machine.
type browser struct {
	ctx context.Context

	mu        sync.Mutex // guards all below
	asked     []string   // URLs
	answers   []reached
	complains []string // exceptions, the console, warnings and errors of the tab
}

// reached is an answer that the tab got.
type reached struct {
	url    string
	status int64
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v (.ci/e2e installs it)", err)
	}
	// All that Chromium writes goes here, and is not in the way once it has ended.
	home := t.TempDir()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.NoInheritEnv, chromedp.Env("PATH="+os.Getenv("PATH"), "HOME="+home),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP rebound.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
	)
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		patience, enough := context.WithTimeout(ctx, 10*time.Second)
		defer enough()
		if err := chromedp.Cancel(patience); err != nil {
			t.Logf("the browser: %v", err)
		}
		cancel()
		stop()
	})
	b := &browser{ctx: ctx}
	patience := time.AfterFunc(2*time.Minute, cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	patience.Stop()
	if err := chromedp.Listen(ctx, b.event); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) event(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, ev.Request.URL)
	case *network.EventResponseReceived:
		b.answers = append(b.answers, reached{ev.Response.URL, ev.Response.Status})
	case *network.EventWebSocketCreated:
		b.asked = append(b.asked, ev.URL)
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.EntryLevelWarning || ev.Entry.Level == log.EntryLevelError {
			b.complains = append(b.complains, fmt.Sprintf("%s (%s)", ev.Entry.Text, ev.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		for _, arg := range ev.Args { // the page writes nothing there
			b.complains = append(b.complains, fmt.Sprintf("%s: %s %s", ev.Type, arg.Description, arg.Value))
		}
	case *runtime.EventExceptionThrown:
		d := ev.ExceptionDetails
		if d.Exception != nil {
			d.Text += " " + d.Exception.Description
		}
		b.complains = append(b.complains, fmt.Sprintf("%s (%s:%d)", d.Text, d.URL, d.LineNumber))
	}
}

// do runs steps in the tab, for some time at most.
func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// value returns what an expression in the page is, or what its promise comes to.
func value[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// sees waits until a condition holds in the page.
func (b *browser) sees(t *testing.T, condition string) {
	t.Helper()
	if !within(20*time.Second, func() bool { return value[bool](t, b, "!!("+condition+")") }) {
		t.Fatalf("the page never had %s; it says:\n%s", condition, value[string](t, b, "document.body.innerText"))
	}
}

// click clicks what a selector finds, as a person does: it has to be there to be
// hit.
func (b *browser) click(t *testing.T, selector string) {
	t.Helper()
	b.do(t, chromedp.Click(chromedp.CSS(selector)))
}

// looks makes the tab a screen of a size, light or dark.
func (b *browser) looks(t *testing.T, width, height int64, scheme string) {
	t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		t.Fatal(err)
	}
}

// picture returns a PNG of what the tab shows.
func (b *browser) picture(t *testing.T) []byte {
	t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	return png
}

// complaints returns what is on the console. Those that hold the texts are left
// out.
func (b *browser) complaints(except ...string) (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.complains {
		if !slices.ContainsFunc(except, func(s string) bool { return strings.Contains(line, s) }) {
			list = append(list, line)
		}
	}
	return list
}

// wantCalm checks that the tab complains of nothing and asked nobody but those
// whose URLs begin with one of the origins.
func (b *browser) wantCalm(t *testing.T, origins ...string) {
	t.Helper()
	if list := b.complaints(); len(list) > 0 {
		t.Errorf("on the console is:\n%s", strings.Join(list, "\n"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) < 5 {
		t.Errorf("the tab asked for %q, want the page, its parts and its data", b.asked)
	}
	for _, url := range b.asked {
		if !slices.ContainsFunc(origins, func(origin string) bool { return strings.HasPrefix(url, origin+"/") }) {
			t.Errorf("the tab asked for %s", url)
		}
	}
}

// statuses returns the statuses of the answers from URLs that hold a text.
func (b *browser) statuses(part string) (list []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.answers {
		if strings.Contains(a.url, part) {
			list = append(list, a.status)
		}
	}
	return list
}
