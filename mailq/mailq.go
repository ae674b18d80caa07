// Package mailq is how the queue is asked: the protocols MAILQ v1 and v2,
// both sides of them, and what the client prints.
package mailq
