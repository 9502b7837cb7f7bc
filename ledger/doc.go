// Package ledger remembers what discarded attempts made, so that it can be
// dropped when a client sends it back, and which response of the upstream
// stands behind the response id that a client saw.
//
// A [Store] holds a [Key] for each: a hash, never an id's or a text's own
// characters. Only an alias has a value, the accepted attempt's response id.
// Entries live for a time that starts again whenever one is looked up.
//
// [Memory] is for one process, [File] for one that is restarted, [Redis] for
// several that share their work. The package knows nothing of HTTP or JSON.
package ledger
