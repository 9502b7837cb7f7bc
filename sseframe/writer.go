package sseframe

import "io"

// Flusher sends on what was written and reports whether that worked.
// *http.ResponseController is one; http.Flusher is not, since it hides errors.
type Flusher interface {
	Flush() error
}

// Writer writes frames to a client. Its first error sticks: each later call
// returns it and writes nothing, so that a loop may check once per flush.
type Writer struct {
	w       io.Writer
	flush   Flusher
	err     error
	pending bool
	written int64
}

// NewWriter returns a Writer on w that flushes through f.
func NewWriter(w io.Writer, f Flusher) *Writer {
	return &Writer{w: w, flush: f}
}

// Write writes b, whole frames or raw text, without flushing. It has the
// signature of io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.w.Write(b)
	w.written += int64(n)
	w.pending = w.pending || n > 0
	w.err = err
	return n, err
}

// Flush sends on what was written since the last flush, if anything was.
func (w *Writer) Flush() error {
	if w.err != nil || !w.pending {
		return w.err
	}
	w.pending = false
	w.err = w.flush.Flush()
	return w.err
}

// Written returns the number of bytes written.
func (w *Writer) Written() int64 { return w.written }

// Err returns the error that ended the Writer, if one did.
func (w *Writer) Err() error { return w.err }
