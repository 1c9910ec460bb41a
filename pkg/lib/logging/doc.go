// Package logging sets up the structured log of Remit's programs. Callers use logr, logrus writes the output, and
// controller-runtime and client-go (klog) log to the same stream.
package logging
