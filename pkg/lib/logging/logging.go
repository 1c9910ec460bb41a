package logging

import (
	"io"
	"os"

	"github.com/bombsimon/logrusr/v4"
	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Setup creates the logger and installs it in controller-runtime and klog. The logger writes JSON lines to standard
// error or, if debug is true, text that includes V(1) lines.
func Setup(debug bool) logr.Logger {
	logger := New(os.Stderr, debug)
	log.SetLogger(logger)
	klog.SetLogger(logger)
	return logger
}

// New returns a logger that writes to w. It changes no global state.
func New(w io.Writer, debug bool) logr.Logger {
	sink := logrus.New()
	sink.SetOutput(w)
	sink.SetFormatter(&logrus.JSONFormatter{})
	sink.SetLevel(logrus.InfoLevel)
	if debug {
		sink.SetFormatter(&logrus.TextFormatter{FullTimestamp: true})
		sink.SetLevel(logrus.DebugLevel)
	}
	return logrusr.New(sink)
}
