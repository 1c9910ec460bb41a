// Package logging sets up the structured log of Remit's programs: logrus writes it, call sites use logr, and
// controller-runtime and client-go (klog) log to the same stream.
package logging
