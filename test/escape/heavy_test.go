package escape

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	// manySubjects is the number of subjects that fit into the largest RoleBinding that the API server accepts.
	manySubjects = 12_000
	// restless is the number of times that a tenant changes an object.
	restless = 200
	// announced is the size of a file that a layer declares but does not contain.
	announced = 512 << 20
)

// heavy is a registry that sends 450 MiB of properties and then keeps the stream open. When it has sent all properties,
// or sending has failed, it sends a signal on the channel sent.
type heavy struct {
	hostileRegistry
	sent chan struct{}
}

// ListBundles implements api.RegistryServer.
func (h *heavy) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	const each, all = 4 << 20, 450 << 20
	text := `"` + strings.Repeat("x", each) + `"`
	for n := range all / each {
		b := entry(fmt.Sprintf("b%d", n), "")
		b.Properties = append(b.Properties, &api.Property{Type: "x", Value: text})
		if err := stream.Send(b); err != nil {
			h.sent <- struct{}{}
			return err
		}
	}
	h.sent <- struct{}{}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// relabel changes a label on an object the given number of times.
func (s *scene) relabel(c client.Client, obj client.Object, times int) {
	s.T.Helper()
	for i := range times {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"x":"%d"}}}`, i))
		require.NoError(s.T, c.Patch(s.T.Context(), obj, patch))
	}
}

// announces answers a request for a layer with the header of a file of size announced, followed by one byte per second
// instead of the file's content.
func announces(w http.ResponseWriter, r *http.Request, asked chan<- struct{}) {
	var header bytes.Buffer
	_ = tar.NewWriter(&header).WriteHeader(&tar.Header{Name: "configs/catalog.yaml", Typeflag: tar.TypeReg, Mode: 0o644, Size: announced})
	zip := gzip.NewWriter(w)
	_, _ = zip.Write(header.Bytes())
	_ = zip.Flush()
	trickle(w, r, asked)
}

// bindingOfMany returns a RoleBinding with manySubjects subjects.
func (s *scene) bindingOfMany() *rbacv1.RoleBinding {
	rb := &rbacv1.RoleBinding{ObjectMeta: s.Meta("many"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: accountName}}
	for i := range manySubjects {
		rb.Subjects = append(rb.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: fmt.Sprintf("%05d", i)})
	}
	return rb
}

// bindOften creates a Role with the given number of rules and binds it to the account with the given number of
// RoleBindings. A name of a Pod in the rules, if it is not empty, makes each of them different.
func (s *scene) bindOften(c client.Client, name, pod string, rules, bindings int) {
	s.T.Helper()
	big := &rbacv1.Role{ObjectMeta: s.Meta(name)}
	for i := range rules {
		r := rule("", "pods", "get")
		if pod != "" {
			r.ResourceNames = []string{fmt.Sprint(pod, i)}
		}
		big.Rules = append(big.Rules, r)
	}
	require.NoError(s.T, c.Create(s.T.Context(), big))
	for i := range bindings {
		require.NoError(s.T, c.Create(s.T.Context(), &rbacv1.RoleBinding{ObjectMeta: s.Meta(fmt.Sprint(name, i)),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: accountName}}}))
	}
}

// heavies returns rows about large responses and about objects that are large or change constantly.
func heavies() []row {
	return []row{
		{number: "200", title: "a RoleBinding with many subjects whose label changes constantly", holds: p0(), play: func(s *scene) {
			mallory := s.mallory()
			rb := s.bindingOfMany()
			require.NoError(s.T, mallory.Create(s.T.Context(), rb))
			waiting := s.beside(1)
			waiting.install(bundleOf(csv().Permissions(forge.Entry(forge.ServiceAccount, `{apiGroups: [batch], resources: [jobs], verbs: [create]}`))))
			message := waiting.PermissionsMissing()
			s.relabel(mallory, rb, 8)
			waiting.Paste(message)
			waiting.Succeeded(probeCSV)
		}},
		{number: "201", title: "eight images that announce 512 MiB, and a neighbor's catalog", holds: p0(), play: func(s *scene) {
			ref, asked := s.push(s.layerOf("configs/catalog.yaml=x")), make(chan struct{}, 1)
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
					return false
				}
				announces(w, r, asked)
				return true
			})
			for n := range 4 {
				tn := s.Tenant
				if n > 0 {
					tn = s.other(fmt.Sprint(n))
				}
				for i := range 2 {
					s.catalogSourceOf(tn, fmt.Sprintf("announcing-%d", i), ref)
				}
			}
			await(s, asked, "the images must be pulled")
			s.neighborReady()
		}},
		{number: "202", title: "a CatalogSource whose label changes constantly, and the Subscriptions of others", holds: p0(), play: func(s *scene) {
			mallory := s.mallory()
			const neighbors = 5
			for i := range neighbors {
				s.other(fmt.Sprint("n", i)).Subscribe("nocatalog", probe, forge.Channel)
			}
			catalogAt(s.Tenant, "mine", "nothing."+s.Namespace+".svc:1")
			s.Eventually(func(c *assert.CollectT) { assert.NotEmpty(c, statuses(c, s.Tenant)["mine"].Message) })
			s.settle()
			before, err := cluster.Reconciles(s.T.Context())
			require.NoError(s.T, err)
			s.relabel(mallory, &operatorsv1alpha1.CatalogSource{ObjectMeta: s.Meta("mine")}, restless)
			after, err := cluster.Reconciles(s.T.Context())
			require.NoError(s.T, err)
			require.Less(s.T, after["subscription"]-before["subscription"], restless, "too many reconciles of Subscriptions")
		}},
		{number: "203", title: "an OperatorGroup with 70,000 targets", holds: p0(), play: func(s *scene) {
			s.grouped(70_000)
			const why = "more than 50000 entries of lists and objects together"
			s.GroupSays(groupName, "TargetsKnown", metav1.ConditionFalse, "NoUsableAccount", why)
			s.GroupSays(groupName, "AccountUsable", metav1.ConditionFalse, "NoAccount", why)
			require.NoError(s.T, s.apply(s.mallory(), csv().Object))
			s.csvSays(failed, why)
		}},
		{number: "203a", title: "an OperatorGroup with 49,000 targets", holds: p0(), play: func(s *scene) {
			s.grouped(49_000)
			s.GroupSays(groupName, "TargetsKnown", metav1.ConditionFalse, "TooManyTargets", "the limit is")
			require.NoError(s.T, s.apply(s.mallory(), csv().Object))
			s.csvSays(failed, "the limit is")
		}},
		{number: "204", title: "three hundred CatalogSources with addresses, and a neighbor's catalog", holds: p0(), play: func(s *scene) {
			where := s.Serve("registry", &hostileRegistry{send: []*api.Bundle{entry("a", "")}})
			for i := range 300 {
				catalogAt(s.Tenant, fmt.Sprintf("c%d", i), where)
			}
			neighbor := s.other("neighbor")
			catalogAt(neighbor, "catalog", neighbor.Serve("registry", &hostileRegistry{send: []*api.Bundle{entry("a", "")}}))
			requireReady(neighbor, "catalog")
			s.Eventually(func(c *assert.CollectT) {
				refused := 0
				for _, status := range statuses(c, s.Tenant) {
					if strings.Contains(status.Message, "connections to 50 registries") {
						refused++
					}
				}
				assert.GreaterOrEqual(c, refused, 200)
			})
		}},
		{number: "205", title: "three registries with 450 MiB of properties, and a neighbor's catalog", holds: p0(), play: func(s *scene) {
			registry := &heavy{sent: make(chan struct{}, 100)}
			where := s.Serve("registry", registry)
			for i := range 3 {
				catalogAt(s.Tenant, fmt.Sprintf("c%d", i), where)
			}
			for range 3 {
				await(s, registry.sent, "the registries must be listed")
			}
			s.neighborReady()
			require.Less(s.T, s.catalogProgram().Peak()>>20, maxDecoding>>20, "MiB of memory")
		}},
		{number: "208", title: "a Role with 50,000 rules that is bound sixty times, and then a second Role that exceeds the limit", holds: p0(), play: func(s *scene) {
			mallory := s.mallory()
			s.bindOften(mallory, "big", "", 50_000, 60)
			// Without RBAC of its own: for each Role that the account writes, the API server resolves all three million rules.
			s.install(bundleOf(csv().Permissions().PodSpec(nil, "serviceAccountName")))
			s.Succeeded(probeCSV)
			s.bindOften(mallory, "more", "p", 20_000, 1)
			s.GroupSays(groupName, "AccountUsable", metav1.ConditionFalse, string(scoped.AccountHoldsTooMuch), "more than the supported maximum of 200000")
			require.NoError(s.T, mallory.Delete(s.T.Context(), &rbacv1.RoleBinding{ObjectMeta: s.Meta("more0")}))
			s.GroupSays(groupName, "AccountUsable", metav1.ConditionTrue, "Enrolled", "")
		}},
	}
}

// grouped creates an OperatorGroup with n targets.
func (s *scene) grouped(n int) {
	s.T.Helper()
	og := &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName), Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName}}
	for i := range n {
		og.Spec.TargetNamespaces = append(og.Spec.TargetNamespaces, fmt.Sprintf("%05x", i))
	}
	s.Create(og)
}
