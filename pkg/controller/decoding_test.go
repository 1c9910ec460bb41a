package controller

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// Without package decoding, the informer never syncs.
func TestCachesKeepWhatCannotBeDecodedApart(t *testing.T) {
	discovery := apiServer(t, nil)
	const (
		good = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"good","namespace":"x","resourceVersion":"1"},"spec":{"version":"1.0.0"}}`
		bad  = `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"bad","namespace":"y","resourceVersion":"2"},
"spec":{"replaces":"older","install":{"strategy":"deployment","spec":{"deployments":[{"name":"d","spec":{"template":{"metadata":{"labels":["x"]}}}}]}}}}`
	)
	next, err := rest.TransportFor(discovery)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/operators.coreos.com/v1alpha1/clusterserviceversions" {
			forward := r.Clone(r.Context())
			forward.RequestURI = ""
			forward.URL.Scheme, forward.URL.Host = "http", discovery.Host[len("http://"):]
			resp, err := next.RoundTrip(forward)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(w, resp.Body)
			return
		}
		if !r.URL.Query().Has("watch") {
			_, _ = io.WriteString(w, `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersionList","metadata":{"resourceVersion":"2"},"items":[`+good+`,`+bad+`]}`)
			return
		}
		if r.URL.Query().Has("sendInitialEvents") {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":`+good+`}{"type":"ADDED","object":`+bad+`}{"type":"BOOKMARK","object":{"kind":"ClusterServiceVersion",
"apiVersion":"operators.coreos.com/v1alpha1","metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	mgr, err := NewManager(&rest.Config{Host: server.URL}, ManagerOptions{UserAgent: "test", Namespace: "remit"})
	require.NoError(t, err)
	added := make(chan *operatorsv1alpha1.ClusterServiceVersion, 2)
	informer, err := mgr.GetCache().GetInformer(t.Context(), &operatorsv1alpha1.ClusterServiceVersion{}, cache.BlockUntilSynced(false))
	require.NoError(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion); ok {
			added <- csv
		}
	}})
	require.NoError(t, err)
	go func() { _ = mgr.GetCache().Start(t.Context()) }()
	for range 2 {
		select {
		case csv := <-added:
			require.Equal(t, csv.Name == "bad", budget.Refused(csv) != nil)
			require.Equal(t, csv.Name == "bad", csv.Spec.Replaces == "older", "what can be decoded is kept")
		case <-time.After(time.Minute):
			t.Fatal("the informer has not read the objects")
		}
	}
}
