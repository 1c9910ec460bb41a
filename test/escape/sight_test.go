package escape

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

func sights() []row {
	return []row{
		{number: "181", title: "a selector that matches a namespace that the account may not get", holds: seesItself(), play: func(s *scene) {
			team := s.team()
			s.label(s.Namespace, team)
			s.label(neighbor, team)
			s.selecting(team)
			s.publish(bundleOf(csv()))
			s.subscribe()
			s.Complete()
			s.Succeeded(probeCSV)
			s.targetsAre(s.Namespace)
			s.namesNoNeighbor()

			s.settle() // the install may not have written its last status yet
			before := s.traces()
			s.label(neighbor, map[string]string{teamLabel: ""})
			s.settle()
			require.Equal(s.T, before, s.traces(), "removing the label from the neighbor's namespace must not leave a trace")
			s.label(neighbor, team)
			s.settle()
			require.Equal(s.T, before, s.traces(), "restoring the label must not leave a trace either")
			s.namesNoNeighbor()
			deployment := &appsv1.Deployment{}
			require.NoError(s.T, s.Get(forge.Deployment, deployment))
			require.Equal(s.T, s.Namespace, deployment.Spec.Template.Annotations[names.AnnotationTargetNamespaces])
		}},
		{number: "181a", title: "a selector that matches only a namespace that, at first, the account may not get", holds: seesItself(), play: func(s *scene) {
			team := s.team()
			s.selecting(team)
			s.publish(bundleOf(csv()))
			s.subscribe()
			s.refused("selects no namespaces")
			s.targetsAre()
			s.Eventually(func(c *assert.CollectT) { // otherwise, the catalog's health may change after the comparison has begun
				health := s.Subscription(c).Status.CatalogHealth
				assert.True(c, len(health) > 0 && health[0].Healthy)
			})
			without := s.traces()
			s.label(neighbor, team)
			s.settle()
			require.Equal(s.T, without, s.traces(), "a namespace that the account may not get must not leave a trace")
			s.GroupSays(groupName, "TargetsKnown", metav1.ConditionTrue, "NamespacesSelected", "spec.selector selects only namespaces that ServiceAccount")
			require.Empty(s.T, s.aboutScene(), "a waiting install must not send requests")

			s.grantGet()
			s.targetsAre(neighbor)
			s.planSays(neighbor) // the account is not allowed to write to the neighbor's namespace
		}},
		{number: "181b", title: "a selector with an account that may no longer get a namespace", holds: seesItself(), play: func(s *scene) {
			team := s.team()
			s.label(s.Namespace, team)
			s.label(neighbor, team)
			binding := s.grantGet()
			s.selecting(team)
			s.targetsAre(s.Namespace, neighbor)
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), binding))
			s.targetsAre(s.Namespace)
			s.namesNoNeighbor()
		}},
		{number: "181c", title: "a selector without an account", holds: seesItself(), play: func(s *scene) {
			team := s.team()
			s.label(s.Namespace, team)
			s.label(neighbor, team)
			s.grantGet()
			for name, account := range map[string]string{"nameless": "", "missing": "later"} {
				s.Create(&operatorsv1.OperatorGroup{ObjectMeta: s.Meta(name), Spec: operatorsv1.OperatorGroupSpec{
					ServiceAccountName: account, Selector: &metav1.LabelSelector{MatchLabels: team}}})
				s.GroupSays(name, "TargetsKnown", metav1.ConditionFalse, "NoUsableAccount", "there is no usable account")
				og := &operatorsv1.OperatorGroup{}
				require.NoError(s.T, s.Get(name, og))
				require.Empty(s.T, og.Status.Namespaces)
			}
		}},
		{number: "181d", title: "an author who may not act as the account that evaluates a selector", holds: seesItself(), play: func(s *scene) {
			s.group(s.Namespace)
			author := s.author("operatorgroups", "get", "create", "update", "patch")
			edit := func(change func(og *operatorsv1.OperatorGroup)) error {
				og := &operatorsv1.OperatorGroup{}
				require.NoError(s.T, s.Get(groupName, og))
				before := og.DeepCopy()
				change(og)
				return author.Patch(s.T.Context(), og, client.MergeFrom(before))
			}
			selector := func(og *operatorsv1.OperatorGroup) { og.Spec.Selector = &metav1.LabelSelector{MatchLabels: s.team()} }
			require.NoError(s.T, edit(selector), "a selector that targetNamespaces overrides has no effect")
			require.ErrorContains(s.T, edit(func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = nil }), "impersonate")
			s.regroup(cluster.Client, func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces, og.Spec.Selector = nil, nil })
			require.ErrorContains(s.T, edit(selector), "impersonate")
			s.regroup(cluster.Client, selector)
			require.ErrorContains(s.T, edit(func(og *operatorsv1.OperatorGroup) {
				og.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "probe", Operator: metav1.LabelSelectorOpExists}}
			}), "impersonate")
			require.NoError(s.T, edit(func(og *operatorsv1.OperatorGroup) { og.Labels = map[string]string{"team": "green"} }))
			require.ErrorContains(s.T, edit(func(og *operatorsv1.OperatorGroup) { og.Spec.Selector = nil }), "impersonate", "all namespaces are other targets")
		}},
	}
}

// teamLabel is the label that the selectors of these rows match.
const teamLabel = "escape.test/team"

func (s *scene) team() map[string]string { return map[string]string{teamLabel: s.Namespace} }

// seesItself returns profile P0 with permission to get the scene's namespace.
func seesItself() profile {
	p := p0()
	p.own = append(p.own, rule("", "namespaces", "get"))
	return p
}

// selecting creates an OperatorGroup with a selector. It also allows the test to change the labels of the neighbor's
// namespace.
func (s *scene) selecting(labels map[string]string) {
	s.T.Helper()
	s.allow(func(c oracle.Change) bool { return c.Name == neighbor && c.Resource == "namespaces" })
	s.T.Cleanup(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+teamLabel+`":null}}}`))
		assert.NoError(s.T, cluster.Client.Patch(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: neighbor}}, patch))
	})
	s.Create(&operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName),
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName, Selector: &metav1.LabelSelector{MatchLabels: labels}}})
}

// grantGet grants the account permission to get the neighbor's namespace and returns the binding.
func (s *scene) grantGet() *rbacv1.RoleBinding {
	s.T.Helper()
	meta := metav1.ObjectMeta{Namespace: neighbor, Name: "seen-by-" + s.Namespace}
	s.createOutside(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule("", "namespaces", "get")}})
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: accountName}}}
	s.createOutside(binding)
	return binding
}

// targetsAre waits until the OperatorGroup's status lists these namespaces.
func (s *scene) targetsAre(want ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, s.Get(groupName, og))
		assert.NotNil(c, og.Status.LastUpdated)
		assert.ElementsMatch(c, want, og.Status.Namespaces)
	})
}

// shown returns an empty list for each kind of object that a tenant can read.
func shown() []client.ObjectList {
	return []client.ObjectList{
		&operatorsv1.OperatorGroupList{}, &operatorsv1alpha1.SubscriptionList{}, &operatorsv1alpha1.InstallPlanList{},
		&operatorsv1alpha1.ClusterServiceVersionList{}, &appsv1.DeploymentList{}, &corev1.ConfigMapList{}, &rbacv1.RoleBindingList{}, &eventsv1.EventList{},
	}
}

// namesNoNeighbor asserts that no object in the namespace mentions the neighbor's namespace.
func (s *scene) namesNoNeighbor() {
	s.T.Helper()
	for _, list := range shown() {
		s.list(list)
		text, err := json.Marshal(list)
		require.NoError(s.T, err)
		require.NotContains(s.T, string(text), `"`+neighbor+`"`)
		require.NotContains(s.T, string(text), neighbor+",")
		require.NotContains(s.T, string(text), ","+neighbor)
	}
}

// traces returns the statuses, including their times, and all other text that Remit has written in the namespace.
func (s *scene) traces() string {
	s.T.Helper()
	var out []string
	for _, list := range shown() {
		s.list(list)
		dropOthers(list)
		text, err := json.Marshal(list)
		require.NoError(s.T, err)
		var content map[string]any
		require.NoError(s.T, json.Unmarshal(text, &content))
		delete(content, "metadata")
		text, err = json.MarshalIndent(content, "", " ")
		require.NoError(s.T, err)
		out = append(out, string(text))
	}
	return strings.Join(out, "\n")
}

// dropOthers removes what the control plane's controllers can write at any time: their Events and the status of Deployments.
func dropOthers(list client.ObjectList) {
	switch list := list.(type) {
	case *eventsv1.EventList:
		list.Items = slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
			return e.ReportingController != names.UserAgentCatalog && e.ReportingController != names.UserAgentOLM
		})
	case *appsv1.DeploymentList:
		for n := range list.Items {
			d := &list.Items[n]
			d.Status, d.ManagedFields, d.ResourceVersion = appsv1.DeploymentStatus{}, nil, ""
		}
	}
}

// aboutScene waits until the catalog's connection is newer than its content and an install in another namespace has completed.
// It returns the requests that Remit's programs have sent during this install about the scene's namespace or as its account.
func (s *scene) aboutScene() []audit.Event {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, s.Get("catalog", cs))
		connection, content := cs.Status.GRPCConnectionState, cs.Status.ConfigMapResource
		if assert.NotNil(c, connection) && assert.NotNil(c, content) {
			assert.Greater(c, connection.LastConnectTime.Unix(), content.LastUpdateTime.Unix())
		}
	})
	s.settle()
	from, err := cluster.AuditedUntilNow(s.T.Context(), s.audited)
	require.NoError(s.T, err)
	s.settle()
	sent, _, err := cluster.AuditedFrom(s.T.Context(), from, func(e audit.Event) bool {
		return e.Verb != "watch" && (e.Object != nil && e.Object.Namespace == s.Namespace && cluster.ControllerIdentities().Is(e) ||
			e.User.Username == "system:serviceaccount:"+s.Namespace+":"+accountName)
	})
	require.NoError(s.T, err)
	return sent
}
