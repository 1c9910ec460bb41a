// Package bench measures what a user waits for and what an API server is asked, on an embedded control
// plane with Remit installed. Nothing here is asserted but that the work gets done, and that nobody is
// woken for others: figures depend on the machine, and so go into the output and docs, not into a test's
// verdict.
package bench
