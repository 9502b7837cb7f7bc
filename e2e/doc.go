// Package e2e holds no code but tests: real agents and client libraries, at
// pinned versions, talk to the built proxy, which stands in front of the
// simulated upstream. Each client has a session of two turns in every case, and
// in each turn uses a tool. Its answers, what the upstream was sent, and what
// the proxy counted have to be right.
//
// The live page is tested in a browser, and what deploy/ holds with a real
// Prometheus, promtool and buildah.
//
// Run it with "make e2e", which installs the clients first. The table at the
// end is kept in docs/clients.md; E2E_UPDATE=1 writes it. What the upstream and
// the client said in a cell that is not green is kept under out/.
package e2e
