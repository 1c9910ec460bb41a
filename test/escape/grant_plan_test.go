package escape

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/escape/forge"
)

// grantsOfPlans returns rows in which a tenant writes an InstallPlan for the administrator's Subscription, with content that the catalog
// does not have, and lets the Subscription's status point to it while the administrator runs "kubectl remit grant --yes".
func grantsOfPlans() []row {
	const jobs = `{apiGroups: [batch], resources: [jobs], verbs: [create]}`
	bundle := bundleOf(csv().Permissions(forge.Entry(forge.ServiceAccount, jobs)))
	return []row{
		{number: "393", title: "a tenant's plan in the status of a Subscription, with a catalog that the command reads", holds: p0(), play: func(s *scene) {
			s.install(bundle)
			s.PermissionsMissing()
			_, end := s.deceive()
			for range 3 {
				s.grantYes("subscription/" + s.Subscription(s.T).Name)
				s.grantedNothingOfTheTenant()
			}
			end()
			require.Zero(s.T, s.grantYes("subscription/"+s.Subscription(s.T).Name))
			s.Succeeded(probeCSV)
			s.grantedNothingOfTheTenant()
		}},
		{number: "394", title: "a tenant's plan in the status of a Subscription, with a catalog that the command does not read", holds: p0(),
			directory: func() string { return forge.Catalog(bundle) }, play: func(s *scene) {
				s.installDirectory()
				s.PermissionsMissing()
				theirs, end := s.deceive()
				for range 3 {
					require.NotZero(s.T, s.grantYes("subscription/"+s.Subscription(s.T).Name))
					s.grantedNothingOfTheTenant()
				}
				end()
				s.grantOther(theirs)
				s.Succeeded(probeCSV)
				s.grantedNothingOfTheTenant()
			}},
	}
}

// grantYes runs "kubectl remit grant --yes" as the administrator and returns the exit status.
func (s *scene) grantYes(arg string) int {
	s.T.Helper()
	_, told, code := cluster.Remit(s.T, "grant", arg, "-n", s.Namespace, "--yes")
	s.T.Logf("grant %s: status %d: %s", arg, code, told)
	return code
}

// deceive creates the tenant's plan, and lets the Subscription's status point to it until end is called. It returns the name of the
// tenant's plan.
func (s *scene) deceive() (name string, end func()) {
	s.T.Helper()
	content := &catalog.Content{Manifests: [][]byte{[]byte(csv().ClusterPermissions(forge.Entry(forge.ServiceAccount, `{apiGroups: [""], resources: [secrets], verbs: [get]}`)).String())}}
	genuine := s.Plan(s.T).DeepCopy()
	plan := resolver.Plan{Namespace: s.Namespace}
	require.NoError(s.T, json.Unmarshal([]byte(genuine.Annotations[names.AnnotationPlan]), &plan.Pins))
	plan.Pins[0].Digest = content.Digest()
	kept, err := resolver.Pack([]*catalog.Content{content}, 200<<10)
	require.NoError(s.T, err)
	mine := &operatorsv1alpha1.InstallPlan{ObjectMeta: s.Meta(plan.Name()), Spec: genuine.Spec}
	mine.Annotations = map[string]string{names.AnnotationPlan: plan.Encode(), names.AnnotationContent: kept}
	mallory := s.mallory()
	require.NoError(s.T, s.CreateAs(mallory, mine))

	patch, err := json.Marshal(map[string]any{"status": map[string]any{"installPlanRef": corev1.ObjectReference{
		APIVersion: "operators.coreos.com/v1alpha1", Kind: "InstallPlan", Namespace: s.Namespace, Name: mine.Name, UID: mine.UID}}})
	require.NoError(s.T, err)
	sub := s.Subscription(s.T)
	ctx, cancel := context.WithCancel(s.T.Context())
	var patching sync.WaitGroup
	patching.Go(func() {
		for every := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; {
			_ = mallory.Status().Patch(ctx, sub.DeepCopy(), client.RawPatch(types.MergePatchType, patch)) // the next attempt follows at once
			select {
			case <-ctx.Done():
			case <-every.C:
			}
		}
	})
	s.Eventually(func(c *assert.CollectT) { assert.Equal(c, mine.Name, s.Subscription(c).Status.InstallPlanRef.Name) })
	return mine.Name, func() {
		cancel()
		patching.Wait()
	}
}

// grantOther grants what a plan other than the tenant's needs. The deception can have made Remit replace its first plan by another one.
func (s *scene) grantOther(theirs string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		all := &operatorsv1alpha1.InstallPlanList{}
		require.NoError(c, cluster.Client.List(s.T.Context(), all, client.InNamespace(s.Namespace)))
		assert.True(c, slices.ContainsFunc(all.Items, func(plan operatorsv1alpha1.InstallPlan) bool {
			return plan.Name != theirs && s.grantYes("installplan/"+plan.Name) == 0
		}))
	})
}

// grantedNothingOfTheTenant asserts that the account may not do what only the tenant's plan needs.
func (s *scene) grantedNothingOfTheTenant() {
	s.T.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + s.Account.Namespace + ":" + s.Account.Name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "get", Resource: "secrets"},
	}}
	require.NoError(s.T, cluster.Client.Create(s.T.Context(), review))
	require.False(s.T, review.Status.Allowed)
}
