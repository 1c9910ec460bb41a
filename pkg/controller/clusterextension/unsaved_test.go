package clusterextension_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

// outdating changes the extension before the first status that contains a text is written, so that the API server refuses the status.
type outdating struct {
	*world
	text  string
	count atomic.Int32
}

func (o *outdating) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &outdatingTransport{o, next} })
}

type outdatingTransport struct {
	*outdating
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o *outdatingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/clusterextensions/"+o.name+"/status") {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(o.text)) && o.count.Add(1) == 1 {
			ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: o.name}}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test.remit.dev/changed":"true"}}}`))
			if err := o.admin.Patch(req.Context(), ext, patch); err != nil {
				return nil, err
			}
		}
	}
	return o.next.RoundTrip(req)
}

// What was removed cannot be determined afterwards, so the report must not be lost if the status cannot be saved.
func TestARemovalIsReportedAfterAConflict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifests func() []string
		rules     []rbacv1.PolicyRule
		reported  string
	}{
		"webhook": {func() []string { return []string{webhookCSV(), crd[:strings.Index(crd, "versions:")] + twoVersions} }, exceptThings(everythingIn("admissionregistration.k8s.io")), "intercepts through"},
		"binding": {func() []string { return []string{csv, crd, greedyBinding} }, []rbacv1.PolicyRule{mayDelete()}, "Remit has removed them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := given(t)
			w.program = w.private(w.name)
			w.grace = time.Second
			o := &outdating{world: w, text: `"` + olmv1.ReasonRemoved + `"`}
			t.Cleanup(w.run(t, o.wrap))
			w.grantAll()
			w.publish("1.0.0", "", c.manifests()...)
			w.install(func(ext *olmv1.ClusterExtension) { ext.Labels = map[string]string{labelProgram: w.name} })
			w.awaitInstalled("1.0.0")
			w.edit(func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Version = "99.0.0" })
			w.weaken(c.rules...)
			require.Contains(t, w.await(olmv1.TypeExceedsIdentity, metav1.ConditionTrue, olmv1.ReasonRemoved), c.reported)
			require.Positive(t, o.count.Load())
		})
	}
}
