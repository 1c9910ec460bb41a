// Package bench measures how long users wait and how many requests the API server receives, on an embedded control
// plane with Remit installed, including the program for ClusterExtensions. It asserts only that installs complete, that
// changes to unrelated objects cause no reconciles, and the request counts that are the same on any machine. The other
// measurements depend on the machine, so they are printed and documented but do not affect the test result.
package bench
