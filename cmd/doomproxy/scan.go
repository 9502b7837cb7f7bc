package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/spf13/cobra"
)

// scanOptions are the flags of scan.
type scanOptions struct {
	text         bool
	channel      string
	format       string
	maxThreshold int
	act          []string
}

func (a *app) scanCommand() *cobra.Command {
	var o scanOptions
	channels := []string{recovery.ChannelThinking, recovery.ChannelResponse, recovery.ChannelTool}
	parts := []string{detect.Exact.String(), detect.Counter.String(), detect.Saturation.String()}
	cmd := &cobra.Command{
		Use:   "scan FILE…",
		Short: "Look for loops in captured streams",
		Long: `Reads captured event streams, such as capture.dir holds, and prints each sign of a
loop in them: what the upstream reported and what the detector finds. It tells
where serve would have cut, and what that would have saved. Streams may be of the
Responses API, of Chat Completions or of Anthropic Messages; with --text the files
are plain text. The name - stands for standard input. Nothing of the text is printed.

Ends with 0 if nothing was found, with 1 if something was, and with 2 if a file
could not be read.`,
		Example: `  doomproxy scan captures/*.sse
  curl -sN https://api.example.com/v1/responses -d @request.json | doomproxy scan -
  doomproxy scan --text --channel response answer.txt
  doomproxy scan --format json captures/*.sse`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{cmd.CommandPath(), errors.New("want the names of files, or - for standard input")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags().Changed, channels, parts); err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return a.scan(&o, args, cmd.InOrStdin())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&o.text, "text", false, "the files are plain text, no event streams")
	flags.StringVar(&o.channel, "channel", channels[0], "what plain text is: thinking, response or tool, as `CHANNEL`")
	flags.StringVar(&o.format, "format", "text", "form of the output: text or json, as `FORMAT`")
	flags.IntVar(&o.maxThreshold, "max-threshold", recovery.DefaultMaxThreshold, "loosest tail_repetition threshold that is acted on, `N` from 2 to 64")
	flags.StringSliceVar(&o.act, "act", parts[:1], "which parts of the detector may cut, `PARTS` of exact,counter,saturation")
	complete(cmd, "channel", channels...)
	complete(cmd, "format", "text", "json")
	complete(cmd, "act", parts...)
	return cmd
}

// check refuses what a flag cannot be.
func (o *scanOptions) check(changed func(flag string) bool, channels, parts []string) error {
	oneOf := func(flag, value string, words []string) error {
		if slices.Contains(words, value) {
			return nil
		}
		return fmt.Errorf("--%s: %q is not allowed, want one of %s", flag, value, strings.Join(words, ", "))
	}
	errs := []error{oneOf("channel", o.channel, channels), oneOf("format", o.format, []string{"text", "json"})}
	for _, part := range o.act {
		errs = append(errs, oneOf("act", part, parts))
	}
	if o.maxThreshold < recovery.MinMaxThreshold || o.maxThreshold > recovery.MaxMaxThreshold {
		errs = append(errs, fmt.Errorf("--max-threshold: %d is not allowed, want a number from %d to %d", o.maxThreshold, recovery.MinMaxThreshold, recovery.MaxMaxThreshold))
	}
	if changed("channel") && !o.text {
		errs = append(errs, errors.New("--channel is for --text: events tell their channel themselves"))
	}
	return errors.Join(errs...)
}

// acting returns the parts that may cut.
func (o *scanOptions) acting() (act detect.Part) {
	for _, part := range []detect.Part{detect.Exact, detect.Counter, detect.Saturation} {
		if slices.Contains(o.act, part.String()) {
			act |= part
		}
	}
	return act
}

// scan reads all files and prints what is found.
func (a *app) scan(o *scanOptions, files []string, stdin io.Reader) error {
	var list []*scanned
	var errs []error
	code := 0
	for _, file := range files {
		s, err := o.scanFile(file, stdin)
		if err != nil {
			s.Verdict, s.Error = verdictUnreadable, err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", s.name(), err))
			code = exitUsage
		} else if len(s.Signals) > 0 && code == 0 {
			code = exitFailure
		}
		list = append(list, s)
	}
	err := writeScan(a.stdout, o.format, list)
	if err == nil && code == 0 {
		return nil
	}
	return &exitError{max(code, exitFailure), errors.Join(append(errs, err)...)}
}

// stdinName stands for standard input among the files.
const stdinName = "-"

// scanFile reads one file. What was found before an error stays.
func (o *scanOptions) scanFile(file string, stdin io.Reader) (*scanned, error) {
	s := &scan{
		out:    scanned{File: file, Text: map[string]int64{}, Signals: []scannedSignal{}},
		policy: recovery.Policy{MaxThreshold: o.maxThreshold}, act: o.acting(),
	}
	r := stdin
	if file != stdinName {
		f, err := os.Open(file) // #nosec G304 -- the user names the file
		if err != nil {
			return &s.out, cause(err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		r = f
	}
	b := bufio.NewReader(r)
	head, _ := b.Peek(512) // whatever is wrong comes again with the first read
	read := s.stream
	if o.text {
		read = s.plain(o.channel)
	}
	if err := read(b); err != nil {
		return &s.out, cause(err)
	}
	if s.out.Events == 0 && !o.text {
		return &s.out, fmt.Errorf("no event stream: %s", guess(head))
	}
	s.judge()
	return &s.out, nil
}

// cause is an error without the name of the file, which is told beside it.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// guess says what a file is that holds no events, and what is wanted.
func guess(head []byte) string {
	text := bytes.TrimSpace(head)
	switch {
	case len(text) == 0:
		return "it is empty"
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "it is compressed, want it unpacked: gunzip"
	case text[0] == '{', text[0] == '[':
		return "it is a JSON document, want the answer to a request with \"stream\":true"
	}
	return "want lines that begin with data:, or --text for plain text"
}
