package scopedcache_test

import (
	"flag"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests mostly wait
		panic(err)
	}
	klog.LogToStderr(false)
	log.SetLogger(logr.Discard())
	if err := apiextensionsv1.AddToScheme(clientgoscheme.Scheme); err != nil { // before the tests share the scheme
		panic(err)
	}
	m.Run()
}
