package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/test/env/proofs"
)

type edit func(spec map[string]any)

// crd returns a CustomResourceDefinition of "things" that serves v1, with the edits applied.
func crd(edits ...edit) *unstructured.Unstructured {
	spec := map[string]any{
		"group": "example.com", "scope": "Namespaced",
		"names": map[string]any{"kind": "Thing", "plural": "things"},
	}
	serving("v1")(spec)
	for _, e := range edits {
		e(spec)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	out.SetAPIVersion("apiextensions.k8s.io/v1")
	out.SetKind("CustomResourceDefinition")
	out.SetName("things.example.com")
	return out
}

func serving(versions ...string) edit {
	return func(spec map[string]any) {
		var list []any
		for _, v := range versions {
			list = append(list, map[string]any{"name": v, "served": true})
		}
		spec["versions"] = append(list, map[string]any{"name": "v0", "served": false})
	}
}

func with(value string, path ...string) edit {
	return func(spec map[string]any) { _ = unstructured.SetNestedField(spec, value, path...) }
}

func TestServes(t *testing.T) {
	for _, row := range []struct {
		name       string
		live, want *unstructured.Unstructured
		serves     bool
	}{
		{"the same", crd(), crd(), true},
		{"more versions", crd(serving("v1", "v2")), crd(), true},
		{"fewer versions", crd(), crd(serving("v1", "v2")), false},
		{"an existing version that is not served", crd(), crd(serving("v0")), false},
		{"another scope", crd(with("Cluster", "scope")), crd(), false},
		{"another group", crd(with("other.com", "group")), crd(), false},
		{"another kind", crd(with("Other", "names", "kind")), crd(), false},
		{"another plural", crd(with("others", "names", "plural")), crd(), false},
		{"invalid versions", crd(), crd(func(spec map[string]any) { spec["versions"] = []any{"v1"} }), true},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.serves, Serves(row.live, row.want)) })
	}
}

func TestOnlyTheDefaultAccountWritesProtectedGroups(t *testing.T) {
	for group, protected := range map[string]bool{
		"example.com": false, "cluster.x-k8s.io": false, "myk8s.io": false, "sample.remit.dev": false,
		"k8s.io": true, "gateway.networking.k8s.io": true, "a.kubernetes.io": true,
		"operators.coreos.com": true, "packages.operators.coreos.com": true, "binding.operators.coreos.com": true,
		"x.olm.operatorframework.io": true, "remit.dev": true, "nodots": true,
	} {
		want := crd(with(group, "group"))
		s := State{Step: step.Step{Object: want}}
		require.NoError(t, (&Executor{IsDefault: true}).check(t.Context(), s), group)
		err := (&Executor{}).check(t.Context(), s)
		if !protected {
			require.NoError(t, err, group)
			continue
		}
		require.ErrorContains(t, err, "CustomResourceDefinition things.example.com is in a protected API group", group)
		s.Live = want
		require.NoError(t, (&Executor{}).check(t.Context(), s), "a served CustomResourceDefinition is not written")
	}
}

// approvedCRD returns a CustomResourceDefinition with a group below k8s.io and the annotation that its author sets to
// declare approval.
func approvedCRD(group string) *unstructured.Unstructured {
	obj := crd(with(group, "group"))
	obj.SetName("things." + group)
	obj.SetAnnotations(map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "https://example.com/pull/1"})
	return obj
}

func TestAnApprovedGroupRequiresThatNoOtherOwnerServesIt(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "n"}, CSV: "p.v1", Proofs: proofs.Keys()}
	other := owner
	other.Namespace = "m"
	inGroup := func(group string, by *ownerutil.Owner) apiextensionsv1.CustomResourceDefinition {
		out := apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: group}}
		out.Name = "others." + group
		if by != nil {
			proofs.Mark(&out, *by)
		}
		return out
	}
	const app = "app.k8s.io"
	for name, row := range map[string]struct {
		group  string
		served Served
		want   string
	}{
		"no other owner serves it":              {app, Served{}, ""},
		"another group's":                       {app, Served{CRDs: []apiextensionsv1.CustomResourceDefinition{inGroup("x.app.k8s.io", &other)}}, ""},
		"the operator itself":                   {app, Served{CRDs: []apiextensionsv1.CustomResourceDefinition{inGroup(app, &owner)}}, ""},
		"another operator":                      {app, Served{CRDs: []apiextensionsv1.CustomResourceDefinition{inGroup(app, &other)}}, `CustomResourceDefinition "others.app.k8s.io" does not belong to this operator`},
		"a person":                              {app, Served{CRDs: []apiextensionsv1.CustomResourceDefinition{inGroup("App.k8s.io", nil)}}, "does not belong to this operator"},
		"another API server":                    {app, Served{APIs: []apiregistrationv1.APIService{{Spec: apiregistrationv1.APIServiceSpec{Group: app, Service: &apiregistrationv1.ServiceReference{}}}}}, "which APIService"},
		"a Kubernetes group that is not served": {"resource.k8s.io", Served{}, "which belongs to Kubernetes"},
		"k8s.io itself":                         {"k8s.io", Served{}, "is in a protected API group"},
		"a group that cannot be approved":       {"x.kubernetes.io", Served{}, "is in a protected API group"},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Step: step.Step{Object: approvedCRD(row.group), Owner: owner}}
			require.NoError(t, (&Executor{IsDefault: true, served: row.served}).check(t.Context(), s))
			err := (&Executor{served: row.served}).check(t.Context(), s)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
	account, crds := fake.NewClientBuilder().Build(), fake.NewClientBuilder().Build()
	writer := func(obj *unstructured.Unstructured, byDefault bool) client.Client {
		return (&Executor{Account: account, CRDs: crds, IsDefault: byDefault}).creator(step.Step{Object: obj})
	}
	require.Same(t, account, writer(approvedCRD(app), false), "the CRD account writes a protected group only for the default account")
	require.Same(t, crds, writer(approvedCRD(app), true))
	require.Same(t, crds, writer(crd(), false))
}

// The priority of one version's APIService determines the preferred version of the whole group.
func TestACRDIsNotWrittenIntoAGroupOfAnotherAPIService(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "n"}, CSV: "p.v1", Proofs: proofs.Keys()}
	other := owner
	other.Namespace = "m"
	aggregated := func(group string) *apiregistrationv1.APIService {
		api := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v7", Service: &apiregistrationv1.ServiceReference{}}}
		api.Name = "v7." + group
		return api
	}
	local := func(kept string) *apiregistrationv1.APIService {
		api := aggregated("example.com")
		api.Spec.Service, api.Labels = nil, map[string]string{labelAutomanaged: kept}
		return api
	}
	by := func(owner ownerutil.Owner) *apiregistrationv1.APIService {
		api := aggregated("example.com")
		proofs.Mark(api, owner)
		return api
	}
	for _, tc := range []struct {
		name     string
		api      *apiregistrationv1.APIService
		reserved bool
	}{
		{"another API server's", aggregated("example.com"), true},
		{"in another letter case", aggregated("Example.com."), true},
		{"of another group", aggregated("x.example.com"), false},
		{"the API server's own", local("onstart"), true},
		{"of a CustomResourceDefinition", local("true"), false},
		{"of the same install", by(owner), false},
		{"of another install", by(other), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := &Executor{served: Served{APIs: []apiregistrationv1.APIService{*tc.api}}}
			s := State{Step: step.Step{Object: crd(serving("v1", "v2")), Owner: owner}}
			mine := crd()
			proofs.Mark(mine, owner)
			for _, live := range []*unstructured.Unstructured{nil, mine} {
				s.Live = live
				if !tc.reserved {
					require.NoError(t, e.check(t.Context(), s))
					continue
				}
				require.ErrorContains(t, e.check(t.Context(), s), "which APIService \""+tc.api.Name+"\" serves: only the installation's default account")
			}
			s.Live = crd(serving("v1", "v2"))
			require.NoError(t, e.check(t.Context(), s), "a served CustomResourceDefinition is not written")
			s.Live, e.IsDefault = nil, true
			require.NoError(t, e.check(t.Context(), s))
		})
	}
}

func TestAForeignCRDThatDoesNotServeIsACollision(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "n"}, CSV: "p.v1", Proofs: proofs.Keys()}
	want := step.Step{Object: crd(serving("v1", "v2")), Owner: owner}

	require.ErrorContains(t, (&Executor{}).check(t.Context(), State{Step: want, Live: crd()}), `does not have the lineage label of package "p" in namespace "n"`)
	mine := crd()
	proofs.Mark(mine, owner)
	require.NoError(t, (&Executor{}).check(t.Context(), State{Step: want, Live: mine}))
}

func TestACRDKeepsVersionsWithStoredObjects(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ns"}, CSV: "op.v2", Proofs: proofs.Keys()}
	live := crd(serving("v1", "v2"))
	proofs.Mark(live, owner)
	stored := func(versions ...any) { live.Object["status"] = map[string]any{"storedVersions": versions} }
	s := State{Step: step.Step{Object: crd(serving("v2")), Owner: owner}, Live: live}
	stored("v1", "v2")
	require.EqualError(t, (&Executor{}).check(t.Context(), s),
		`risk of data loss updating "things.example.com": new CRD removes version v1 that is listed as a stored version on the existing CRD`)
	stored("v2")
	require.NoError(t, (&Executor{}).check(t.Context(), s))
	s.Step.Object = crd(serving("v2"), func(spec map[string]any) {
		spec["versions"] = append(spec["versions"].([]any), map[string]any{"name": "v1", "served": false})
	})
	stored("v1", "v2")
	require.NoError(t, (&Executor{}).check(t.Context(), s), "a version that is no longer served is not lost")
	stored("v1")
	live.SetLabels(nil)
	require.NoError(t, (&Executor{}).check(t.Context(), s), "a foreign CustomResourceDefinition is not written")
}
