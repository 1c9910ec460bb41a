package scopedcache_test

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	log.SetLogger(logr.Discard())
	m.Run()
}
