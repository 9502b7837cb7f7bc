package proxy

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// maxEncodings bounds how many times a body may be encoded. Clients do it once.
const maxEncodings = 2

var (
	errBodyTooLarge    = errors.New("request body too large")
	errUnknownEncoding = errors.New("unknown content encoding")
)

// decodeBody undoes the encodings that a Content-Encoding header lists, as far
// as limit bytes of each result: past it the error is errBodyTooLarge.
func decodeBody(wire, contentEncoding string, limit int64) (string, error) {
	encodings := strings.Split(contentEncoding, ",")
	if len(encodings) > maxEncodings {
		return "", errUnknownEncoding
	}
	plain := wire
	for _, encoding := range slices.Backward(encodings) { // the last one was applied last
		r, err := decoder(strings.ToLower(strings.TrimSpace(encoding)), plain, limit)
		if err != nil {
			return "", err
		}
		plain, err = readAtMost(r, limit, 0)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			err = errBodyTooLarge
		}
		if c, ok := r.(interface{ Close() }); ok {
			c.Close()
		}
		if err != nil {
			return "", err
		}
	}
	return plain, nil
}

// decoder returns a reader of what text is when one encoding is undone.
func decoder(encoding, text string, limit int64) (io.Reader, error) {
	r := strings.NewReader(text)
	switch encoding {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(r)
	case "deflate":
		// Meant is zlib's format; some send bare deflate.
		if z, err := zlib.NewReader(r); err == nil {
			return z, nil
		}
		return flate.NewReader(strings.NewReader(text)), nil
	case "br":
		return brotli.NewReader(r), nil
	case "zstd":
		// The window, too, is memory that the body asks for; 8 MiB is what
		// encoders choose unless told otherwise.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(uint64(max(limit, 8<<20))))
	}
	return nil, errUnknownEncoding
}

// readAtMost reads r to its end. More than limit bytes are errBodyTooLarge.
// hint is how many are expected.
func readAtMost(r io.Reader, limit, hint int64) (string, error) {
	var b strings.Builder
	b.Grow(int(min(max(hint, 0), 1<<20))) // what a client promises is not what it sends
	n, err := io.Copy(&b, io.LimitReader(r, limit+1))
	if n > limit {
		return "", errBodyTooLarge
	}
	return b.String(), err //nolint:wrapcheck // the caller knows what r is
}
