package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
)

func (a *app) checkConfigCommand() *cobra.Command {
	var o *options
	cmd := &cobra.Command{
		Use:   "check-config [FILE]",
		Short: "Check a configuration, and print what holds",
		Long: `Reads the configuration as serve does, with environment and flags, and the files
that it names: certificates, keys, tokens. Prints each mistake, or what holds: all
settings as a configuration file, without secrets, with the place that each value
comes from if it is not the default.

Ends with 0 if serve could start with it, else with 1.`,
		Example: `  doomproxy check-config doomproxy.yaml
  doomproxy check-config                  the file that serve would find
  DOOMPROXY_RECOVERY_MODE=observe doomproxy check-config --upstream https://api.x.ai/v1`,
		Args: func(cmd *cobra.Command, args []string) error {
			return noArguments(cmd, args[min(1, len(args)):])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.file.given = append(o.file.given, args...)
			return a.checkConfig(o)
		},
	}
	o = register(cmd)
	return cmd
}

// checkConfig prints the configuration, or what is wrong with it.
func (a *app) checkConfig(o *options) error {
	src, err := a.sources(o)
	if err != nil {
		return err
	}
	l, err := checked(src)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return attr
	}}))
	for _, n := range l.Notes {
		n(log)
	}
	if _, err := a.open(&l.Config, log); err != nil {
		return err
	}
	if _, err := a.secure(l.TLS, log); err != nil {
		return err
	}
	text, err := l.YAML()
	if err != nil {
		return err
	}
	if l.File != "" {
		fmt.Fprintf(a.stdout, "# from %q\n", l.File)
	}
	_, err = a.stdout.Write(text)
	return err
}
