package proxy

// Capture says where discarded attempts are kept, as event streams in files: what
// models wrote for users, in plain text.
type Capture struct {
	// Dir is the directory; empty means that nothing is kept. It must exist.
	Dir string
	// MaxBytes bounds all files in it together, the oldest go first; zero means
	// DefaultCaptureMaxBytes.
	MaxBytes int64
}

// DefaultCaptureMaxBytes is room for some thousand loops.
const DefaultCaptureMaxBytes = 100 << 20
