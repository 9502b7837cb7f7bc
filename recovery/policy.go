package recovery

// Bounds and defaults of Policy, from the wire contract.
const (
	DefaultMaxThreshold = 64
	MinMaxThreshold     = 2
	MaxMaxThreshold     = 64

	DefaultMaxRetries = 2
	MaxMaxRetries     = 5
)

// Policy decides which signals are acted on and how often.
type Policy struct {
	// MaxThreshold is the loosest tail_repetition threshold that counts as
	// confident, 2 to 64; zero means DefaultMaxThreshold.
	MaxThreshold int
	// MaxRetries is the number of resamples a request may have, 0 to 5.
	MaxRetries int
}

// Clamped returns p with its values brought into their ranges.
func (p Policy) Clamped() Policy {
	if p.MaxThreshold == 0 {
		p.MaxThreshold = DefaultMaxThreshold
	}
	p.MaxThreshold = min(max(p.MaxThreshold, MinMaxThreshold), MaxMaxThreshold)
	p.MaxRetries = min(max(p.MaxRetries, 0), MaxMaxRetries)
	return p
}

// Confident reports whether s may end an attempt: a tail repetition in the
// thinking, at least as tight as the threshold asks. All else only warns.
func (p Policy) Confident(s Signal) bool {
	return s.Kind == KindTailRepetition && s.Channel == ChannelThinking && !s.WarnOnly &&
		int64(s.Threshold) <= int64(p.Clamped().MaxThreshold)
}
