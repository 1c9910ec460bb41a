package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
)

// An extension that waits for a kind resumes when a CustomResourceDefinition defines it.
func TestResumesWhenARequiredKindIsServed(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.grantAll()
	group := "needed." + w.name + ".example.com"
	w.requires = []catalog.Property{{Type: "olm.gvk.required", Value: []byte(`{"group":"` + group + `","version":"v1","kind":"Thing"}`)}}
	w.publish("1.0.0", "", csv, crd)
	w.install()
	require.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked), group)
	w.apply(strings.ReplaceAll(crd, "NAME.example.com", group))
	w.awaitInstalled("1.0.0")
}

// An extension that waits for an operator resumes when another extension has installed it.
func TestResumesWhenARequiredPackageIsInstalled(t *testing.T) {
	t.Parallel()
	w, other := given(t), given(t)
	w.grantAll()
	other.grantAll()
	other.publish("7.7.7", "", csv, crd)
	w.requires = []catalog.Property{{Type: "olm.package.required", Value: []byte(`{"packageName":"op","versionRange":"7.7.7"}`)}}
	w.publish("1.0.0", "", csv, crd)
	w.install()
	require.Contains(t, w.await(olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked), "7.7.7")
	other.install()
	other.awaitInstalled("7.7.7")
	w.awaitInstalled("1.0.0")
}
