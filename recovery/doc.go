// Package recovery knows doom loops: how an upstream reports one, when a
// report is confident enough to act on, what the next attempt is told, and how
// the new attempt's events continue what the client has already seen.
//
// It holds rules, not connections: it does no input or output and knows
// nothing of HTTP. Per attempt there is a [Parser], a [Collector] and a
// [Capture]; per request a [View] of what the client has and a [Replay] of
// what further attempts are told. None of them is safe for concurrent use.
package recovery
