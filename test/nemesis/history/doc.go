// Package history is what the virtual users asked and what they were told:
// one [Op] for each request, with the times at which it was sent and
// answered, by one monotonic clock. It is kept in memory for the checks and
// written to a file, one JSON object a line, for whoever looks at a run.
//
// A request without a definite answer is [Unknown]: it may have been done, it
// may be done later, or never.
package history
