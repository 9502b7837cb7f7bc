package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestDescribe(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("send upstream: %w", refused), "send upstream: dial tcp 127.0.0.1:1: connect: connection refused"},
		{fmt.Errorf("send upstream: %w", io.EOF), "send upstream: EOF"},
		{fmt.Errorf("%w: read upstream: %w", errUnfinished, io.ErrUnexpectedEOF), "the stream ended without a terminal event: read upstream: unexpected EOF"},
		{fmt.Errorf("send upstream: %w", errors.New("Sorry, who are you?")), "send upstream: …"},
		{errors.New("secret"), "…"},
		{fmt.Errorf(`net/http: malformed HTTP response %q`, "secret"), `net/http: malformed HTTP response "…"`},
		{errors.New("http: " + strings.Repeat("x", 1000)), "http: " + strings.Repeat("x", 294) + "…"},
		{&statusError{503}, "the upstream answered with status 503"},
	} {
		if got := describe(tc.err); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
