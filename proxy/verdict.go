package proxy

// verdict is how an attempt ended for the request.
type verdict uint8

const (
	verdictNone     verdict = iota // not ended
	verdictAccepted                // it is the answer
	verdictCut                     // it looped and was ended
	verdictRefused                 // the upstream wants no such request
	verdictMissing                 // the upstream does not know an item of the input
	verdictNoStream                // it makes no event streams
	verdictLocked                  // nor now, but the same one later
	verdictFailed                  // no answer
	verdictDropped                 // an answer that broke off after something was visible
	verdictGone                    // the client went away
	verdictRetry                   // no answer, and it is made again
)

func (v verdict) String() string {
	return [...]string{"", "accepted", "cut", "refused", "missing", "no_stream", "locked", "failed", "dropped", "client_gone", "retried"}[v]
}
