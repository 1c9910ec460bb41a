// Package logging makes the one structured stream that all of Remit logs into: logrus writes it, and
// logr is what call sites see. controller-runtime and client-go (klog) are led into the same stream.
// Both programs call it once, first thing.
package logging
