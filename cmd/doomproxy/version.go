package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/doomproxy/doomproxy/metrics"
	"github.com/spf13/cobra"
)

// version and commit are set in release builds:
// -ldflags "-X main.version=v1.2.3 -X main.commit=…". Empty, they are taken from
// what the go command noted in the binary.
var version, commit string

// build is what is known about this binary.
type build struct{ version, commit string }

func newBuild() build {
	b := build{version: version, commit: commit}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Version != "(devel)" {
		b.version = cmp.Or(b.version, info.Main.Version)
	}
	if ok && b.commit == "" {
		setting := map[string]string{}
		for _, s := range info.Settings {
			setting[s.Key] = s.Value
		}
		b.commit = setting["vcs.revision"]
		if b.commit != "" && setting["vcs.modified"] == "true" {
			b.commit += "-modified"
		}
	}
	return build{cmp.Or(b.version, "devel"), cmp.Or(b.commit, "unknown")}
}

// String is what the version command prints.
func (b build) String() string {
	return fmt.Sprintf("doomproxy %s\ncommit    %s\nbuilt by  %s for %s/%s\n",
		b.version, b.commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (b build) metrics() metrics.Build { return metrics.Build{Version: b.version, Commit: b.commit} }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go release",
		Example: "  doomproxy version",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, newBuild())
			return err
		},
	}
}
