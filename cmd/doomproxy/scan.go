package main

import (
	"bufio"
	"bytes"
	"context"
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
			if given := o.maxThreshold; o.clamp() {
				fmt.Fprintf(a.stderr, "doomproxy: --max-threshold: %d is not from %d to %d; %d is used\n",
					given, recovery.MinMaxThreshold, recovery.MaxMaxThreshold, o.maxThreshold)
			}
			return a.scan(cmd.Context(), &o, args, cmd.InOrStdin())
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
	complete(cmd, "max-threshold")
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
	if changed("channel") && !o.text {
		errs = append(errs, errors.New("--channel is for --text: events tell their channel themselves"))
	}
	return errors.Join(errs...)
}

// clamp brings the threshold into its range, as serve does, and reports whether
// it was outside.
func (o *scanOptions) clamp() bool {
	given := o.maxThreshold
	o.maxThreshold = min(max(given, recovery.MinMaxThreshold), recovery.MaxMaxThreshold)
	return o.maxThreshold != given
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

// The exit codes of scan, besides 0.
const (
	exitFound      = 1
	exitUnreadable = 2
)

// scan reads all files and prints what is found.
func (a *app) scan(ctx context.Context, o *scanOptions, files []string, stdin io.Reader) error {
	var list []*scanned
	var errs []error
	code := 0
	for _, file := range files {
		s, err := o.scanFile(ctx, file, stdin)
		if err != nil {
			s.Verdict, s.Error = verdictUnreadable, err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", s.name(), err))
			code = exitUnreadable
		} else if len(s.Signals) > 0 {
			code = max(code, exitFound)
		}
		list = append(list, s)
		if ctx.Err() != nil {
			break // the rest would be interrupted, too
		}
	}
	if err := writeScan(a.stdout, o.format, list); err != nil {
		errs = append(errs, fmt.Errorf("write the report: %w", err))
		code = exitUnreadable
	}
	if code == 0 {
		return nil
	}
	return &exitError{code, errors.Join(errs...)}
}

// stdinName stands for standard input among the files.
const stdinName = "-"

// headBytes is enough of a file to tell what it is if it is no event stream.
const headBytes = 512

// scanFile reads one file. What was found before an error stays.
func (o *scanOptions) scanFile(ctx context.Context, file string, stdin io.Reader) (*scanned, error) {
	s := &scan{
		out:    scanned{File: file, Text: map[string]int64{}, Signals: []scannedSignal{}},
		policy: recovery.Policy{MaxThreshold: o.maxThreshold}, act: o.acting(),
	}
	from := stdin
	if file != stdinName {
		f, err := os.Open(file) // #nosec G304 -- the user names the file
		if err != nil {
			return &s.out, cause(err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		from = f
	}
	r, release := interruptible(ctx, from)
	defer release()
	b := bufio.NewReader(r)
	head, _ := b.Peek(headBytes) // whatever is wrong comes again with the first read
	head = bytes.Clone(head)     // which uses the buffer again
	var err error
	if o.text {
		err = s.plain(b, o.channel)
	} else {
		err = s.stream(b)
	}
	noEvents := s.out.Events == 0 && !o.text
	switch tooLarge := errors.Is(err, errTooLarge); {
	case noEvents && (err == nil || tooLarge && !isEvents(head)):
		return &s.out, fmt.Errorf("no event stream: %s", guess(head))
	case err != nil:
		return &s.out, cause(err)
	}
	s.judge()
	return &s.out, nil
}

// errInterrupted is why reading ends with the command's context.
var errInterrupted = errors.New("interrupted")

// interruptible returns a reader of r that ends with ctx, also while r waits, as
// a terminal does for someone to type. release has to be called in the end.
func interruptible(ctx context.Context, r io.Reader) (_ io.Reader, release func()) {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(errInterrupted) })
	return out, func() {
		stop()
		out.Close() //nolint:errcheck // it never fails
	}
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
		return "it is empty, want server-sent events as they came"
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return "it is compressed, want it unpacked: gunzip"
	case text[0] == '{', text[0] == '[':
		return `it is a JSON document, want the answer to a request with "stream":true`
	case isEvents(head):
		return "no event in it has data that is whole"
	}
	return `it looks like plain text, want lines that begin with "data:", or the flag --text`
}

// isEvents reports whether a file begins as an event stream does.
func isEvents(head []byte) bool {
	text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\ufeff")))
	return slices.ContainsFunc([]string{"data:", "event:", "id:", "retry:", ":"}, func(field string) bool {
		return bytes.HasPrefix(text, []byte(field))
	})
}
