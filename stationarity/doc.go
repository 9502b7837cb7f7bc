// Package stationarity notices an agent that makes the same tool call again and
// again, and words what is done about it: a nudge at the end of the next
// request, or an answer that ends the turn.
//
// All it needs stands in the request, because an agent sends its whole
// conversation each time: nothing is remembered between two requests. [Check]
// looks at the input, [Nudge] amends a body, [Answer] takes the place of the
// upstream's. All are pure functions and safe for concurrent use.
package stationarity
