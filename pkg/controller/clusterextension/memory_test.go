package clusterextension

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/preflight"
)

func bundleNamed(name string) *bundle.Bundle {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Name = name
	return &bundle.Bundle{CSV: csv}
}

// While a new version is blocked, the catalog may disappear. The installed version must then still be maintained.
func TestRemembersTheContentOfTheInstalledVersion(t *testing.T) {
	t.Parallel()
	ext := extension("op", func(ext *olmv1.ClusterExtension) {
		ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "op.v1", Version: "1.0.0"}}
	})
	u := givenUnit(t, interceptor.Funcs{}, ext)
	remember := func(name string) {
		u.memory.Change("op", func(is *remembered) {
			is.setContent(&content{key: name + "@1", name: name, bundle: bundleNamed(name)}, ext.Status.Install)
		})
	}
	remember("op.v1")
	remember("op.v2")
	remember("op.v3")
	require.Equal(t, "op.v1", u.memory.Get("op").previous.bundle.CSV.Name)
	for range 2 {
		s := u.begin(ext)
		out, err := s.keepInstalled(t.Context())
		require.NoError(t, err)
		require.False(t, out.stopped)
		require.Equal(t, "op.v1", s.bundle.CSV.Name)
	}

	remember("op.v2")
	require.NotNil(t, u.memory.Get("op").previous)
	s := u.begin(ext)
	s.bundle = bundleNamed("op.v2")
	s.resolved.Bundle = &catalog.Bundle{Name: "op.v2", Version: "2.0.0"}
	s.Recorder = events.NewFakeRecorder(1)
	s.findings.Changes = []preflight.Change{{From: "op.v1", To: "op.v2"}}
	s.setVersion()
	require.Empty(t, s.findings.Changes, "the installed version is not compared with an earlier one")
	require.Nil(t, u.memory.Get("op").previous, "the other version is installed now")
	require.Equal(t, "op.v2", u.memory.Get("op").content.bundle.CSV.Name)
}
