package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/config"
	"github.com/spf13/cobra"
)

// healthTime is how long a health check may take.
const healthTime = 2 * time.Second

func (a *app) healthcheckCommand() *cobra.Command {
	var o *options
	var url string
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running proxy whether it takes requests",
		Long: `Asks the admin listener of a proxy on this machine for /readyz, and waits 2 s for
the answer. Ends with 0 if the proxy is ready, else with 1. Where the listener is
follows from the configuration, as it does for serve.`,
		Example: `  doomproxy healthcheck
  doomproxy healthcheck --admin http://127.0.0.1:3667`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("admin") {
				return a.healthcheck(cmd.Context(), []string{url})
			}
			src, err := a.sources(o)
			if err != nil {
				return err
			}
			// A file that cannot be used any more says nothing about a proxy that runs:
			// what can be understood of it has to do.
			l, broken := config.Load(src)
			urls, err := adminURLs(l.AdminListen)
			if err == nil {
				err = a.healthcheck(cmd.Context(), urls)
			}
			if err != nil {
				err = errors.Join(err, broken)
			}
			return err
		},
	}
	o = register(cmd, "admin-listen")
	cmd.Flags().StringVar(&url, "admin", "", "`URL` of the admin listener, in place of what is configured")
	complete(cmd, "admin")
	return cmd
}

// adminURLs returns under which URLs an address is reached from this machine.
func adminURLs(address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	switch {
	case address == "":
		return nil, errors.New("the admin listener is off (admin_listen is empty), so there is nobody to ask")
	case err != nil:
		return nil, err
	case port == "0":
		return nil, fmt.Errorf("admin_listen is %s, a port that is another one each time: name it with --admin", address)
	}
	hosts := []string{host}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		hosts = []string{"127.0.0.1"}
		if ip.To4() == nil {
			hosts = append(hosts, "::1")
		}
	}
	var urls []string
	for _, host := range hosts {
		urls = append(urls, "http://"+net.JoinHostPort(host, port))
	}
	return urls, nil
}

// healthcheck asks under each URL until one answers.
func (a *app) healthcheck(ctx context.Context, urls []string) error {
	ctx, cancel := a.timeout(ctx, healthTime)
	defer cancel()
	transport := &http.Transport{} // without a proxy: it is on this machine
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var errs []error
	for _, url := range urls {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) //nolint:errcheck // the status says it all
		told := strings.TrimSpace(string(text))
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", req.URL, resp.Status, told)
		}
		fmt.Fprintln(a.stdout, told)
		return nil
	}
	return errors.Join(errs...)
}
