package clusterextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/step"
)

// Users who have granted everything never see the report, which contains the warnings about a bundle, too.
func TestAnEventListsWhatABundleOmits(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	recorder := events.NewFakeRecorder(4)
	u.Recorder = recorder
	s := u.begin(extension("op", func(*olmv1.ClusterExtension) {}))
	s.bundle = bundleNamed("op.v2")
	s.resolved.Bundle = &catalog.Bundle{Name: "op.v2", Version: "2.0.0"}
	s.steps = []step.Step{{Object: &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap"}}, Warnings: []string{`manifest "package.yaml": line 1: omitted`, "b\n---\nkind: Secret"}}}
	for range 2 {
		s.setVersion()
	}
	close(recorder.Events)
	var got []string
	for e := range recorder.Events {
		got = append(got, e)
	}
	require.Equal(t, []string{
		`Normal Installed Installed bundle "op.v2", version 2.0.0`,
		"Normal PartsOmitted manifest \"package.yaml\": line 1: omitted\nb --- kind: Secret",
	}, got, "once for each version")
}
