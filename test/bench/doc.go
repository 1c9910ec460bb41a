// Package bench measures how long users wait and how many requests the API server receives, on an embedded control
// plane with Remit installed. It asserts only that installs complete and that unrelated objects are not reconciled. The
// measurements depend on the machine, so they are printed and documented but do not affect the test result.
package bench
