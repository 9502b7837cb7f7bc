package proxy

import "time"

// LookEvery sets how often t looks at its files. No request may run.
func (t *TLSTransport) LookEvery(d time.Duration) { t.interval = d }
