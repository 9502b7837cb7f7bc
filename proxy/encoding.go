package proxy

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"slices"
	"strings"
	"unsafe"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// maxEncodings bounds how many times a body may be encoded. Clients do it once.
const maxEncodings = 2

var (
	errBodyTooLarge    = errors.New("request body too large")
	errNoMemory        = errors.New("no memory left for request bodies")
	errUnknownEncoding = errors.New("unknown content encoding")
)

// decodeBody undoes the encodings that a Content-Encoding header lists, as far
// as limit bytes of each result: past it the error is errBodyTooLarge.
func decodeBody(wire, contentEncoding string, limit int64, take func(n int) bool) (string, error) {
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
		plain, err = readAtMost(r, 0, limit, take)
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

// readAtMost reads r to its end, as long as take finds memory for it. More than
// limit bytes are errBodyTooLarge. With errNoMemory comes what was read.
// size is what it is said to have, or not positive; it is only a hint.
func readAtMost(r io.Reader, size, limit int64, take func(n int) bool) (string, error) {
	const unknown, most = 4 << 10, 1 << 20 // who says that a body is large may be wrong
	if size <= 0 {
		size = unknown
	}
	b := make([]byte, 0, min(size+1, most))
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, cap(b))
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return "", errBodyTooLarge
		case !take(n):
			return text(b), errNoMemory
		case errors.Is(err, io.EOF):
			return text(b), nil
		case err != nil:
			return "", err //nolint:wrapcheck // the caller knows what r is
		}
	}
}

// text returns b as a string without copying it; b must not be changed any more.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) } // #nosec G103 -- see above
