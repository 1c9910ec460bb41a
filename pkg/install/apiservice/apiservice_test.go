package apiservice_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

var update = flag.Bool("update", false, "rewrite golden files")

type (
	csv         = operatorsv1alpha1.ClusterServiceVersion
	description = operatorsv1alpha1.APIServiceDescription
)

func newCSV(owned ...description) *csv {
	c := &csv{}
	c.Name, c.Namespace, c.UID = "demo.v1.0.0", "t1", "csv-uid"
	for _, name := range []string{"mgr", "other"} {
		spec := operatorsv1alpha1.StrategyDeploymentSpec{Name: name}
		spec.Spec.Template.Spec.ServiceAccountName = "demo-sa"
		c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, spec)
	}
	c.Spec.APIServiceDefinitions.Owned = owned
	return c
}

func api(edits ...func(*description)) description {
	d := description{Group: "demo.acme.io", Version: "v1", Kind: "Thing", Name: "things", DeploymentName: "mgr", ContainerPort: 5443}
	for _, e := range edits {
		e(&d)
	}
	return d
}

func input(c *csv) apiservice.Input {
	return apiservice.Input{
		CSV: c, NamespaceUID: "ns-uid", Trust: func(string) []byte { return []byte("trust") },
		Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: c.Namespace}, CSV: c.Name, UID: c.UID},
	}
}

func TestInvalidAPIsAreRejected(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*description)
		want string
	}{
		{"a Kubernetes group", func(d *description) { d.Group = "metrics.k8s.io" }, `API group "metrics.k8s.io" is reserved`},
		{"the domain of Kubernetes", func(d *description) { d.Group = "k8s.io" }, "is reserved"},
		{"kubernetes.io", func(d *description) { d.Group = "x.kubernetes.io" }, "is reserved"},
		{"OLM's group", func(d *description) { d.Group = "operators.coreos.com" }, "is reserved"},
		{"OLM's packages", func(d *description) { d.Group = "packages.operators.coreos.com" }, "is reserved"},
		{"a subdomain of OLM's group", func(d *description) { d.Group = "x.operators.coreos.com" }, "is reserved"},
		{"another version of a Kubernetes group", func(d *description) { d.Group, d.Version = "apps", "v9" }, `API group "apps" is reserved`},
		{"no group", func(d *description) { d.Group = "" }, `group "" is invalid`},
		{"a group with a slash", func(d *description) { d.Group = "a/b" }, `group "a/b" is invalid`},
		{"an invalid version", func(d *description) { d.Version = "system:foo" }, `version "system:foo" is invalid`},
		{"no version", func(d *description) { d.Version = "" }, `version "" is invalid`},
		{"an unknown Deployment", func(d *description) { d.DeploymentName = "x" }, `deployment "x" is not part of the install strategy`},
		{"a port out of range", func(d *description) { d.ContainerPort = 70000 }, "containerPort 70000 is not a valid port"},
	} {
		t.Run(tc.name, func(t *testing.T) { require.ErrorContains(t, apiservice.Validate(newCSV(api(tc.edit))), tc.want) })
	}
	require.NoError(t, apiservice.Validate(newCSV(api(), api(func(d *description) { d.Kind = "Other" }))))
	require.ErrorContains(t, apiservice.Validate(newCSV(api(), api(func(d *description) { d.DeploymentName = "other" }))), "same deployment and port")
	require.ErrorContains(t, apiservice.Validate(newCSV(make([]description, 101)...)), "at most 100")
	require.ErrorContains(t, apiservice.Validate(newCSV(api(func(d *description) { d.Group = "a.k8s.io" }))), `API group "a.k8s.io" is reserved`)
}

func TestOwnedReturnsEachAPIOnce(t *testing.T) {
	c := newCSV(api(), api(func(d *description) { d.Kind = "Other" }), api(func(d *description) { d.Version, d.ContainerPort = "v2", 0 }))
	require.Equal(t, []apiservice.API{
		{Group: "demo.acme.io", Version: "v1", Deployment: "mgr", Port: 5443},
		{Group: "demo.acme.io", Version: "v2", Deployment: "mgr", Port: 443},
	}, apiservice.Owned(c))
	require.Equal(t, "v1.demo.acme.io", apiservice.Owned(c)[0].Name())
}

func TestObjectsHaveTheLabelsOfTheContract(t *testing.T) {
	in := input(newCSV(api()))
	service, err := in.Desired(apiservice.Owned(in.CSV)[0])
	require.NoError(t, err)
	access, err := in.Access("mgr")
	require.NoError(t, err)
	var docs []string
	for _, o := range append(access, service) {
		raw, err := yaml.Marshal(o.Object)
		require.NoError(t, err)
		docs = append(docs, string(raw))
	}
	got := strings.Join(docs, "---\n")
	path := filepath.Join("testdata", "api.yaml")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestACertificateToolManagesTheCABundle(t *testing.T) {
	in := input(newCSV(api()))
	in.Trust, in.Annotations = nil, func(string) map[string]string { return map[string]string{"a": "b"} }
	service, err := in.Desired(apiservice.Owned(in.CSV)[0])
	require.NoError(t, err)
	require.NotContains(t, service.Object["spec"], "caBundle")
	require.Equal(t, map[string]string{"a": "b"}, service.GetAnnotations())
}

func TestBindingsOfTwoInstallsNeverCollide(t *testing.T) {
	seen := map[string]bool{}
	for _, in := range []apiservice.Input{
		input(newCSV()), input(func() *csv { c := newCSV(); c.Namespace = "t2"; return c }()),
		func() apiservice.Input { in := input(newCSV()); in.Owner.Package = "other"; return in }(),
	} {
		for _, deployment := range []string{"mgr", "other"} {
			access, err := in.Access(deployment)
			require.NoError(t, err)
			for _, o := range access {
				require.False(t, seen[o.GetName()], o.GetName())
				seen[o.GetName()] = true
			}
		}
	}
	v2 := input(newCSV())
	v2.Owner.CSV = "demo.v2.0.0"
	access, err := v2.Access("mgr")
	require.NoError(t, err)
	require.True(t, seen[access[0].GetName()], "the next version uses the same names")
}

func TestAnAPIGroupServedByAnotherOwnerIsTaken(t *testing.T) {
	owner := input(newCSV()).Owner
	a := apiservice.API{Group: "demo.acme.io", Version: "v1"}
	require.NoError(t, apiservice.Taken(a, owner, nil, nil))

	live := &apiregistrationv1.APIService{}
	live.Name, live.Spec.Group, live.Spec.Service = "v1.demo.acme.io", "demo.acme.io", &apiregistrationv1.ServiceReference{}
	all := []*apiregistrationv1.APIService{live}
	err := apiservice.Taken(a, owner, all, nil)
	require.ErrorContains(t, err, "pre-existing APIService v1.demo.acme.io is not adoptable: it does not have the lineage label")
	a.Version = "v9"
	require.ErrorContains(t, apiservice.Taken(a, owner, all, nil), `pre-existing APIService v9.demo.acme.io is not adoptable: APIService "v1.demo.acme.io" serves the same API group`)
	live.Spec.Group = "Demo.Acme.io"
	require.Error(t, apiservice.Taken(a, owner, all, nil), "groups are not case-sensitive")
	live.Spec.Service = nil
	require.ErrorContains(t, apiservice.Taken(a, owner, all, nil), "the API server itself serves the API")
	require.NoError(t, apiservice.Taken(apiservice.API{Group: "x.demo.acme.io", Version: "v1"}, owner, all, nil), "the group is not served")
	owner.Proofs = proofs.Keys()
	proofs.Mark(live, owner)
	require.NoError(t, apiservice.Taken(a, owner, all, nil))
	other := owner
	other.Namespace = "t2"
	require.Error(t, apiservice.Taken(a, other, all, nil), "another install of the same operator owns the APIService")

	crd := apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.Spec.Group = "things.demo.acme.io", "demo.acme.io"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v2"}}
	for _, services := range [][]*apiregistrationv1.APIService{nil, all, {{Spec: apiregistrationv1.APIServiceSpec{Group: "demo.acme.io"}}}} {
		require.ErrorContains(t, apiservice.Taken(a, owner, services, []apiextensionsv1.CustomResourceDefinition{crd}),
			`CustomResourceDefinition "things.demo.acme.io" serves the same API group`, "in any version")
	}
}

func TestStatus(t *testing.T) {
	live := &apiregistrationv1.APIService{}
	live.Name = "v1.demo.acme.io"
	available, why := apiservice.Status(live)
	require.False(t, available)
	require.Equal(t, "APIService v1.demo.acme.io is not available: missing condition", why)
	live.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, Message: "no endpoints"}}
	available, why = apiservice.Status(live)
	require.False(t, available)
	require.Equal(t, "APIService v1.demo.acme.io is not available: no endpoints", why)
	live.Status.Conditions[0].Status = apiregistrationv1.ConditionTrue
	available, _ = apiservice.Status(live)
	require.True(t, available)
}
