package render_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/corpus"
)

// watched returns the watchNamespace for each install mode that a ClusterExtension can use.
func watched() map[operatorsv1alpha1.InstallModeType]string {
	return map[operatorsv1alpha1.InstallModeType]string{
		operatorsv1alpha1.InstallModeTypeAllNamespaces: "", operatorsv1alpha1.InstallModeTypeOwnNamespace: "ops",
		operatorsv1alpha1.InstallModeTypeSingleNamespace: "other",
	}
}

func TestRendersEveryRealBundle(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(corpus.Dir(t, "bundles"), "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	count := 0
	for _, dir := range dirs {
		pkg := filepath.Base(filepath.Dir(dir))
		name := pkg + "/" + filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			b, err := fbc.ReadBundle(t.Context(), os.DirFS(dir))
			require.NoError(t, err)
			modes := slices.DeleteFunc(slices.Clone(b.CSV.Spec.InstallModes), func(m operatorsv1alpha1.InstallMode) bool {
				_, usable := watched()[m.Type]
				return !m.Supported || !usable
			})
			in := render.Input{Bundle: b, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: "ops", Extension: pkg}, UID: "uid"}}
			if len(modes) == 0 {
				_, err := render.Render(in)
				require.ErrorAs(t, err, new(*render.UnsupportedModesError))
				return
			}
			for _, m := range modes {
				in.Config.WatchNamespace = watched()[m.Type]
				for _, tool := range []*serving.Tool{nil, serving.CertManager("ops"), serving.ServiceCA()} {
					in.Tool = tool
					count++
					if r := checkReal(t, in); r.Hooks.Empty() {
						break // without webhooks and APIs, the tool makes no difference
					}
				}
			}
		})
	}
	t.Logf("%d renderings of %d bundles", count, len(dirs))
}

// checkReal renders a bundle and checks the metadata that every object must have.
func checkReal(t *testing.T, in render.Input) *render.Rendered {
	t.Helper()
	r, err := render.Render(in)
	require.NoError(t, err)
	again, err := render.Render(in)
	require.NoError(t, err)
	require.Equal(t, encoded(t, r), encoded(t, again))

	at := 0
	for _, o := range r.Objects {
		require.GreaterOrEqual(t, slices.Index(render.Order(), o.Phase), at)
		at = slices.Index(render.Order(), o.Phase)
		require.NotEqual(t, operatorsv1alpha1.ClusterServiceVersionKind, o.GetKind())
		require.Equal(t, in.Owner.Extension, o.GetLabels()["olm.operatorframework.io/owner-name"])
		require.Len(t, o.GetOwnerReferences(), 1)
		require.NotContains(t, o.Object, "status")
		if k, ok := bundle.KindOf(o.GroupVersionKind().GroupKind()); ok && !k.Namespaced {
			require.Empty(t, o.GetNamespace(), o.GetName())
		} else if !slices.Contains([]render.Phase{render.Roles, render.Bindings, render.Admission, render.Publish}, o.Phase) {
			require.Equal(t, "ops", o.GetNamespace(), "%s %s", o.GetKind(), o.GetName())
		}
	}
	return r
}

func encoded(t *testing.T, r *render.Rendered) string {
	t.Helper()
	text, err := json.Marshal(r.Objects)
	require.NoError(t, err)
	return string(text)
}
