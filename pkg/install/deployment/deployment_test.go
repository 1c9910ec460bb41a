package deployment_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/env/proofs"
)

var update = flag.Bool("update", false, "rewrite golden files")

func csv(edit ...func(*operatorsv1alpha1.ClusterServiceVersion)) *operatorsv1alpha1.ClusterServiceVersion {
	c := &operatorsv1alpha1.ClusterServiceVersion{}
	c.Name, c.Namespace, c.UID = "demo.v1.0.0", "t1", "csv-uid"
	c.Annotations = map[string]string{
		"createdAt":                          "2026-01-01",
		"olm.targetNamespaces":               "everything",
		corev1.LastAppliedConfigAnnotation:   "{}",
		"alm-examples":                       string(make([]byte, 5000)),
		"operators.operatorframework.io/hub": "x",
		"sidecar.istio.io/inject":            "false",
		"container.apparmor.security.beta.kubernetes.io/manager": "unconfined",
	}
	c.Spec.InstallStrategy.StrategyName = "deployment"
	c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{
		Name:  "demo",
		Label: map[string]string{"tier": "control", "olm.owner": "forged"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "demo"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "demo"}, Annotations: map[string]string{"own": "1"}},
				Spec: corev1.PodSpec{
					DeprecatedServiceAccount: "demo-sa",
					Containers: []corev1.Container{
						{Name: "manager", Image: "demo:1", Env: []corev1.EnvVar{{Name: "OPERATOR_CONDITION_NAME", Value: "forged"}}},
						{Name: "proxy", Image: "proxy:1"},
					},
				},
			},
		},
	}}
	for _, e := range edit {
		e(c)
	}
	return c
}

func owner() ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1.0.0", UID: "csv-uid"}
}

func group() map[string]string {
	return map[string]string{"olm.operatorGroup": "og", "olm.operatorNamespace": "t1", "olm.targetNamespaces": "t1,t2"}
}

func golden(t *testing.T, name string, in deployment.Input) {
	t.Helper()
	got, err := deployment.Desired(in)
	require.NoError(t, err)
	obj, err := apply.Object(got[0])
	require.NoError(t, err)
	raw, err := yaml.Marshal(obj.Object)
	require.NoError(t, err)
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, raw, 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(raw))
}

func TestDesiredHasTheLabelsOfTheContract(t *testing.T) {
	golden(t, "plain.yaml", deployment.Input{CSV: csv(), Owner: owner(), Group: group()})
}

func TestDesiredAppliesTheSubscriptionsConfig(t *testing.T) {
	golden(t, "config.yaml", deployment.Input{CSV: csv(), Owner: owner(), Group: group(), Config: &operatorsv1alpha1.SubscriptionConfig{
		Env:          []corev1.EnvVar{{Name: "LEVEL", Value: "debug"}, {Name: "OPERATOR_CONDITION_NAME", Value: "forged"}},
		EnvFrom:      []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}},
		Volumes:      []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		Tolerations:  []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}},
		NodeSelector: map[string]string{"zone": "a"},
		Affinity:     &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}},
		Annotations:  map[string]string{"own": "not overridden", "more": "2"},
	}})
}

func TestTheHashCoversThePodTemplate(t *testing.T) {
	hash := func(in deployment.Input) string {
		got, err := deployment.Desired(in)
		require.NoError(t, err)
		return got[0].Labels["olm.deployment-spec-hash"]
	}
	in := deployment.Input{CSV: csv(), Owner: owner(), Group: group()}
	first := hash(in)
	require.Equal(t, first, hash(in))
	in.Group = map[string]string{"olm.targetNamespaces": "t1"}
	require.NotEqual(t, first, hash(in))
}

func TestStatusTexts(t *testing.T) {
	available := func(ok corev1.ConditionStatus, message string) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: ok, Message: message}
	}
	refused := func(is corev1.ConditionStatus) appsv1.DeploymentCondition {
		return appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: is, Reason: "FailedCreate", Message: "exceeded\nquota: q"}
	}
	for _, tc := range []struct {
		name  string
		gen   int64
		state appsv1.DeploymentStatus
		want  deployment.Progress
	}{
		{"not observed", 2, appsv1.DeploymentStatus{ObservedGeneration: 1},
			deployment.Progress{Text: `waiting for spec update of deployment "d" to be observed...`}},
		{"stuck", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}}},
			deployment.Progress{Stuck: true, Text: `deployment "d" exceeded its progress deadline`}},
		{"outdated", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 1},
			deployment.Progress{Text: `deployment "d" waiting for 2 outdated replica(s) to be terminated`}},
		{"one of two replicas missing, as maxUnavailable allows", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{available(corev1.ConditionTrue, "")}},
			deployment.Progress{Ready: true, Text: `deployment "d" is up-to-date and available`}},
		{"no replicas, as maxUnavailable allows", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2,
			Conditions: []appsv1.DeploymentCondition{available(corev1.ConditionTrue, "")}},
			deployment.Progress{Text: `deployment "d" not available: no replica is available`}},
		{"available, although one replica is missing", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{available(corev1.ConditionTrue, ""), {Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}}},
			deployment.Progress{Ready: true, Text: `deployment "d" is up-to-date and available`}},
		{"not available", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{
			available(corev1.ConditionFalse, "no minimum availability")}},
			deployment.Progress{Text: `deployment "d" not available: no minimum availability`}},
		{"pods are refused", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{
			available(corev1.ConditionFalse, "no minimum availability"), refused(corev1.ConditionTrue)}},
			deployment.Progress{Text: `deployment "d" not available: no minimum availability; its Pods cannot be created: exceeded quota: q`}},
		{"pods were refused", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{
			available(corev1.ConditionFalse, "no minimum availability"), refused(corev1.ConditionFalse)}},
			deployment.Progress{Text: `deployment "d" not available: no minimum availability`}},
		{"stuck because pods are refused", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}, refused(corev1.ConditionTrue)}},
			deployment.Progress{Stuck: true, Text: `deployment "d" exceeded its progress deadline; its Pods cannot be created: exceeded quota: q`}},
		{"ready", 1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{available(corev1.ConditionTrue, "")}},
			deployment.Progress{Ready: true, Text: `deployment "d" is up-to-date and available`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &appsv1.Deployment{Status: tc.state}
			d.Name, d.Generation, d.Spec.Replicas = "d", tc.gen, ptr.To(int32(2))
			require.Equal(t, tc.want, deployment.Status(d, d.Spec.Replicas))
		})
	}
}

func TestZeroReplicasAreReadyOnlyIfTheCSVRequestsZero(t *testing.T) {
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(0))}, Status: appsv1.DeploymentStatus{
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}}}
	d.Name, d.Namespace = "d", "t1"
	require.Equal(t, deployment.Progress{Text: `deployment "d" is scaled to 0 replicas; to scale it up, run: kubectl scale deployment d -n t1 --replicas=1`},
		deployment.Status(d, nil))
	require.True(t, deployment.Status(d, ptr.To(int32(0))).Ready)
}

func TestEditsAreImagesSetByOtherManagers(t *testing.T) {
	in := deployment.Input{CSV: csv(), Owner: owner(), Group: group()}
	all, err := deployment.Desired(in)
	require.NoError(t, err)
	want := all[0]
	live := want.DeepCopy()
	require.Empty(t, deployment.OtherImages(live, want))

	live.Spec.Template.Spec.Containers[0].Image = "other:1"
	live.Spec.Template.Spec.Containers = append(live.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "sidecar:1"})
	require.NotEmpty(t, deployment.OtherImages(live, want))
	require.Empty(t, deployment.Edits(live, want), "a webhook may have set the image when Remit wrote the Deployment")

	manages := func(manager, container string) metav1.ManagedFieldsEntry {
		raw := `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"` + container + `\"}":{"f:image":{}}}}}}}`
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(raw)}
	}
	live.ManagedFields = []metav1.ManagedFieldsEntry{manages(apply.Manager(want.Labels), "manager"), manages("else", "proxy"),
		{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`{"f:spec":[]}`)}, {Manager: "empty"}}
	require.Empty(t, deployment.Edits(live, want))
	live.ManagedFields = append(live.ManagedFields, manages("kubectl-set", "manager"))
	require.Equal(t, []deployment.Edit{{Container: "manager", Image: "other:1", Wanted: "demo:1", Manager: "kubectl-set"}}, deployment.Edits(live, want))
}

// listers returns listers with a Role and a RoleBinding for each rule in granted, which maps ServiceAccounts in t1 to
// the namespaces in which they have a rule.
func listers(t *testing.T, granted map[string]map[string]rbacv1.PolicyRule) rbac.Listers {
	t.Helper()
	index := func() toolscache.Indexer {
		return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	roles, bindings := index(), index()
	for sa, in := range granted {
		for namespace, rule := range in {
			meta := metav1.ObjectMeta{Name: sa, Namespace: namespace}
			require.NoError(t, roles.Add(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}))
			require.NoError(t, bindings.Add(&rbacv1.RoleBinding{ObjectMeta: meta,
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "t1", Name: sa}},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: sa}}))
		}
	}
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(index()),
		ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(index()),
	}
}

func TestIdentitiesMustNotExceedTheAccount(t *testing.T) {
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	runAs := func(name string) func(*operatorsv1alpha1.ClusterServiceVersion) {
		return func(c *operatorsv1alpha1.ClusterServiceVersion) {
			pod := &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec
			pod.ServiceAccountName, pod.DeprecatedServiceAccount = "", name
		}
	}
	declare := func(name string) func(*operatorsv1alpha1.ClusterServiceVersion) {
		return func(c *operatorsv1alpha1.ClusterServiceVersion) {
			s := &c.Spec.InstallStrategy.StrategySpec
			s.Permissions = append(s.Permissions, operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: name})
		}
	}
	type given map[string]map[string]rbacv1.PolicyRule
	for _, tc := range []struct {
		name    string
		csv     *operatorsv1alpha1.ClusterServiceVersion
		granted given
		wrong   string
	}{
		{"declared and created", csv(runAs("made"), declare("made")), nil, ""},
		{"created for another version, not declared", csv(runAs("made")), given{"made": {"t1": read}}, "does not declare it"},
		{"declared, with permissions that the account has, not created", csv(runAs("op"), declare("op")), given{"op": {"t1": read}, "acct": {"t1": read}}, ""},
		{"declared, with more permissions, not created", csv(runAs("boss"), declare("boss")), given{"boss": {"t1": read}}, "the install of the ClusterServiceVersion did not create it"},
		{"the account itself", csv(runAs("acct"), declare("acct")), nil, "it is the account"},
		{"undeclared without permissions", csv(runAs("op")), nil, ""},
		{"undeclared, with permissions that the account has", csv(runAs("op")), given{"op": {"t1": read}, "acct": {"t1": read}}, ""},
		{"undeclared, with more permissions", csv(runAs("boss")), given{"boss": {"t1": read}}, `in namespace t1 {apiGroups: [""]`},
		{"undeclared, with more permissions in another namespace", csv(runAs("boss")), given{"boss": {"t9": read}, "acct": {"t1": read}}, ""},
		{"default, with more permissions", csv(runAs("")), given{"default": {"t1": read}}, "in namespace t1"},
		{"default, declared, with more permissions", csv(runAs(""), declare("default")), given{"default": {"t1": read}}, "in namespace t1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := deployment.CheckIdentities(tc.csv, deployment.Bound{Account: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "t1", Name: "acct"}),
				Made: func(name string) (time.Time, bool) { return time.Now(), name == "made" }, RBAC: listers(t, tc.granted)})
			if tc.wrong == "" {
				require.NoError(t, err)
				return
			}
			var identity *deployment.IdentityError
			require.ErrorAs(t, err, &identity)
			require.ErrorContains(t, err, tc.wrong)
			require.NotContains(t, err.Error(), "t9", "the error does not name other namespaces")
		})
	}
}

// Every Pod that mounts a Secret with a token acts as its ServiceAccount.
func TestTokensMustNotExceedTheAccount(t *testing.T) {
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1.0.0", Proofs: proofs.Keys()}
	token := func(serviceAccount string) *unstructured.Unstructured {
		out := apply.Reference(corev1.SchemeGroupVersion.WithKind("Secret"), "t1", "token")
		out.SetAnnotations(map[string]string{corev1.ServiceAccountNameKey: serviceAccount})
		out.Object["type"] = string(corev1.SecretTypeServiceAccountToken)
		return out
	}
	mine := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		proofs.Mark(obj, owner)
		return obj
	}
	opaque := token("boss")
	opaque.Object["type"] = string(corev1.SecretTypeOpaque)
	never := func(string) (time.Time, bool) { return time.Time{}, false }
	notYet := func(string) (time.Time, bool) { return deployment.NotYet(), true }
	long := func(string) (time.Time, bool) { return time.Now().Add(-time.Hour), true }
	for name, tc := range map[string]struct {
		secret, live *unstructured.Unstructured
		made         func(string) (time.Time, bool)
		wrong        string
	}{
		"of a ServiceAccount without permissions":          {token("op"), nil, notYet, ""},
		"of one that will inherit permissions":             {token("boss"), nil, notYet, "bindings that are not newer than the ServiceAccount"},
		"of one that another install made":                 {token("boss"), nil, never, "in namespace t1"},
		"of one that users gave permissions later":         {token("boss"), nil, long, ""},
		"of the account":                                   {token("acct"), nil, long, "it is the account"},
		"no token":                                         {opaque, nil, never, ""},
		"that exists":                                      {token("boss"), mine(token("boss")), never, ""},
		"that exists, created by another user":             {token("boss"), token("boss"), never, "in namespace t1"},
		"that exists, of another ServiceAccount":           {token("boss"), mine(token("op")), never, "in namespace t1"},
		"that exists without a token, of the same install": {token("boss"), mine(opaque.DeepCopy()), never, "in namespace t1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listers(t, map[string]map[string]rbacv1.PolicyRule{"boss": {"t1": read}})
			b, err := l.RoleBindings.RoleBindings("t1").Get("boss")
			require.NoError(t, err)
			b.CreationTimestamp = metav1.Now()
			err = deployment.CheckToken(tc.secret, tc.live, deployment.Bound{
				Account: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "t1", Name: "acct"}), Made: tc.made, Owner: owner, RBAC: l, Log: logr.Discard(),
			})
			if tc.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, `Secret "token" may not contain a token of ServiceAccount "`)
			require.ErrorContains(t, err, tc.wrong)
		})
	}
}

// renderFor gives a binding the name and the proof of one that the owner's install created for a ServiceAccount.
func renderFor(t *testing.T, b *rbacv1.RoleBinding, owner ownerutil.Owner, serviceAccount string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	encoded, err := json.Marshal(rules)
	require.NoError(t, err)
	b.Name = owner.CSV + "-" + owner.GrantHash(serviceAccount, b.Namespace, encoded)
	proofs.Mark(b, owner)
}

// A new ServiceAccount immediately has the permissions from bindings that already existed for its name.
func TestExistingBindingsOfANewServiceAccountCount(t *testing.T) {
	made := time.Now().Truncate(time.Second)
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1.0.0", Proofs: proofs.Keys()}
	other := owner
	other.Package = "other"
	c := csv(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		s := &c.Spec.InstallStrategy.StrategySpec
		s.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op"}}
		s.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName = "op"
	})
	for _, tc := range []struct {
		name  string
		in    string
		edit  func(*rbacv1.RoleBinding)
		wrong string
	}{
		{"older", "t1", func(b *rbacv1.RoleBinding) { b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour)) }, "in namespace t1"},
		{"older, in another namespace", "t9", func(b *rbacv1.RoleBinding) { b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour)) }, ""}, // its author gives away what is theirs
		{"older, in another namespace, created by another install of the namespace", "t9", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			renderFor(t, b, other, "op", read)
		}, "outside of namespace t1"},
		{"older, in another namespace, created by another install for another ServiceAccount", "t9", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			renderFor(t, b, other, "other", read)
		}, ""}, // a user of the other namespace has added the subject
		{"older, in another namespace, created by another install, kept in deletion", "t9", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			renderFor(t, b, other, "op", read)
			b.DeletionTimestamp, b.Finalizers = new(metav1.NewTime(made)), []string{"a.example/x"}
		}, "outside of namespace t1"}, // users who do not have its permissions can keep it
		{"older, in another namespace, created by OLM and handed over", "t9", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			b.Name = "demo.v1.0.0-op-3bd9XaZ1"
			proofs.Mark(b, other)
		}, "outside of namespace t1"},
		{"older, in another namespace, created by another install for other permissions", "t9", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			renderFor(t, b, other, "op", read, read)
		}, ""}, // a user of the other namespace has changed the Role
		{"older, for all ServiceAccounts of the namespace", "t1", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			b.Subjects = []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:t1"}}
		}, "in namespace t1"},
		{"older, also for the account", "t1", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "t2", Name: "acct"})
		}, ""},
		{"created in the same second", "t1", func(b *rbacv1.RoleBinding) { b.CreationTimestamp = metav1.NewTime(made) }, "in namespace t1"},
		{"created by another install", "t1", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made)
			proofs.Mark(b, other)
		}, "in namespace t1"},
		{"with the labels of the install", "t1", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			b.Labels = owner.Labels()
		}, "in namespace t1"},
		{"older, kept in deletion", "t1", func(b *rbacv1.RoleBinding) {
			b.CreationTimestamp = metav1.NewTime(made.Add(-time.Hour))
			b.DeletionTimestamp, b.Finalizers = new(metav1.NewTime(made)), []string{"a.example/x"}
		}, "in namespace t1"},
		{"newer, created by a user", "t1", func(b *rbacv1.RoleBinding) { b.CreationTimestamp = metav1.NewTime(made.Add(time.Second)) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := listers(t, map[string]map[string]rbacv1.PolicyRule{"op": {tc.in: read}})
			binding, err := l.RoleBindings.RoleBindings(tc.in).Get("op")
			require.NoError(t, err)
			tc.edit(binding)
			var logged strings.Builder
			log := funcr.New(func(_, line string) { logged.WriteString(line) }, funcr.Options{})
			err = deployment.CheckIdentities(c, deployment.Bound{Account: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "t2", Name: "acct"}), Owner: owner,
				Made: func(string) (time.Time, bool) { return made, true }, RBAC: l, Log: log, Program: "remit-catalog"})
			if tc.in == "t9" && tc.wrong != "" { // users who read the error may not be allowed to see this namespace
				require.Contains(t, logged.String(), `"serviceAccount"="t1/op" "account"="t2/acct" "bindings"=["RoleBinding t9/`+binding.Name+`"]`)
				require.NotContains(t, err.Error(), "t9")
				require.ErrorContains(t, err, "; an administrator can find the bindings outside of namespace t1 in the log of remit-catalog")
			} else {
				require.Empty(t, logged.String())
			}
			if tc.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "bindings that are not newer than the ServiceAccount")
			require.ErrorContains(t, err, tc.wrong)
		})
	}
}

// What installs created counts unless the account could create it now, however new it is: another account may have created it.
func TestWhatAnEarlierAccountGrantedCounts(t *testing.T) {
	made := time.Now().Truncate(time.Second)
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	bind := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, ResourceNames: []string{"op"}, Verbs: []string{"bind"}}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1.0.0", Proofs: proofs.Keys()}
	other, elsewhere, extension := owner, owner, owner
	other.Package, elsewhere.Namespace, extension.Extension = "other", "t2", "demo"
	c := csv(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		s := &c.Spec.InstallStrategy.StrategySpec
		s.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op"}}
		s.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName = "op"
	})
	const refused = "bindings that were created for this operator as an account that could do more refer to it, and it has permissions that ServiceAccount t1/acct does not have: "
	const remedy = "; grant what they grant to ServiceAccount t1/acct, or delete them"
	for name, tc := range map[string]struct {
		by             ownerutil.Owner // the install that created the binding, for the ServiceAccount op
		of             ownerutil.Owner // the install that is checked; owner if it is empty
		in             string
		account        *rbacv1.PolicyRule
		serviceAccount string // the one that the binding was created for; op if it is empty
		edit           func(*deployment.Bound)
		age            time.Duration
		want           string
	}{
		"not covered": {by: owner, in: "t1", want: refused + `in namespace t1 {apiGroups: [""], resources: ["secrets"], verbs: ["get"]}` + remedy},
		"not covered, as old as the ServiceAccount":                                  {by: owner, in: "t1", age: time.Hour, want: refused},
		"not covered, in another namespace":                                          {by: owner, in: "t9", want: refused + "permissions outside of namespace t1" + remedy + "; an administrator can find"},
		"not covered, of which a user of another namespace has changed the subjects": {by: owner, in: "t9", serviceAccount: "other"},
		"not covered, by an install beside it":                                       {by: other, in: "t1", want: refused},
		"not covered, by an install elsewhere":                                       {by: elsewhere, in: "t1"},
		"not covered, by a ClusterExtension":                                         {by: extension, of: extension, in: "t1", want: refused},
		"covered":                                                                    {by: owner, in: "t1", account: &read},
		"that the account may bind":                                                  {by: owner, in: "t1", account: &bind},
		"that the API server allows": {by: owner, in: "t1", edit: func(b *deployment.Bound) {
			b.Confirm = func([]excess.Object) ([]excess.Object, error) { return nil, nil }
		}},
		"about which the API server cannot decide": {by: owner, in: "t1", want: "no answer", edit: func(b *deployment.Bound) {
			b.Confirm = func([]excess.Object) ([]excess.Object, error) { return nil, errors.New("no answer") }
		}},
		"of Deployments that stay as they are": {by: owner, in: "t1", edit: func(b *deployment.Bound) { b.Unchanged = true }},
	} {
		t.Run(name, func(t *testing.T) {
			rules := map[string]map[string]rbacv1.PolicyRule{"op": {tc.in: read}}
			if tc.account != nil {
				rules["acct"] = map[string]rbacv1.PolicyRule{"t1": *tc.account}
			}
			l := listers(t, rules)
			binding, err := l.RoleBindings.RoleBindings(tc.in).Get("op")
			require.NoError(t, err)
			binding.CreationTimestamp = metav1.NewTime(made.Add(time.Hour - tc.age))
			renderFor(t, binding, tc.by, cmp.Or(tc.serviceAccount, "op"), read)
			by := deployment.Bound{Account: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "t1", Name: "acct"}), Owner: tc.of,
				Made: func(string) (time.Time, bool) { return made, true }, RBAC: l, Log: logr.Discard(), Program: "remit-olm"}
			if tc.of.Package == "" {
				by.Owner = owner
			}
			if tc.edit != nil {
				tc.edit(&by)
			}
			err = deployment.CheckIdentities(c, by)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "t9", "the error does not name other namespaces")
		})
	}
}

// Programs that act on the labels and annotations of Pods do so with their own permissions, not the account's.
func TestPodsHaveNoKeysThatClusterProgramsActOn(t *testing.T) {
	const order, other = "olm.catalogSource", "cluster-autoscaler.kubernetes.io/safe-to-evict"
	got, err := deployment.Desired(deployment.Input{CSV: csv(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		d := &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0]
		d.Label[order], d.Spec.Selector.MatchLabels[order], d.Spec.Template.Labels[order] = "x", "x", "x"
		d.Spec.Template.Annotations[other] = "false"
	}), Owner: owner(), Group: group(), Config: &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{other: "false"}}})
	require.NoError(t, err)
	plain, err := deployment.Desired(deployment.Input{CSV: csv(), Owner: owner(), Group: group()})
	require.NoError(t, err)
	require.Equal(t, plain, got)
}

// An empty EnvVar takes 40 bytes, and as a map almost 400.
func TestDeploymentsCountAsMaps(t *testing.T) {
	_, err := deployment.Desired(deployment.Input{CSV: csv(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		d := &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0]
		for range 4 {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "a", Env: make([]corev1.EnvVar, 25_000)})
		}
		more := *d.DeepCopy()
		more.Name = "more"
		c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, more, more)
	}), Owner: owner(), Group: group()})
	require.ErrorContains(t, err, "of memory; at most 16.0 MiB are allowed")
}

// The caches contain each rule once, and the Role of an author who repeats rules must be recognized, too.
func TestRepeatedRulesDoNotHideABinding(t *testing.T) {
	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	repeated := append(slices.Repeat([]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}, 200), read)
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1.0.0", Proofs: proofs.Keys()}
	l := listers(t, map[string]map[string]rbacv1.PolicyRule{"op": {"t9": read}})
	role, err := l.Roles.Roles("t9").Get("op")
	require.NoError(t, err)
	role.Rules = rbac.KeptRules(repeated)
	require.Len(t, role.Rules, 2)
	b, err := l.RoleBindings.RoleBindings("t9").Get("op")
	require.NoError(t, err)
	c := csv(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		c.Name = owner.CSV
		c.Spec.InstallStrategy.StrategySpec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: repeated}}
	})
	objects, err := build.OperatorRBAC(c, owner, []string{"t9"})
	require.NoError(t, err)
	b.Name = objects[len(objects)-1].GetName()
	proofs.Mark(b, owner)
	reach := deployment.Reach{RBAC: l, Installed: func(b rbac.Binding) (ownerutil.Owner, bool) { return owner, owner.Owns(b) }}
	require.True(t, reach.Of(types.NamespacedName{Namespace: "t1", Name: "op"})(b))
	require.False(t, reach.Of(types.NamespacedName{Namespace: "t1", Name: "other"})(b))
}

// Comparing a ServiceAccount with the account can take long, and a ClusterServiceVersion has up to 1,000 Deployments.
func TestAServiceAccountIsJudgedOnce(t *testing.T) {
	c := csv(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		specs := &c.Spec.InstallStrategy.StrategySpec
		specs.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op"}}
		specs.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName = "op"
		for range 9 {
			specs.DeploymentSpecs = append(specs.DeploymentSpecs, specs.DeploymentSpecs[0])
		}
	})
	judged := 0
	require.NoError(t, deployment.CheckIdentities(c, deployment.Bound{Account: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "t1", Name: "acct"}),
		Made: func(string) (time.Time, bool) { judged++; return time.Time{}, false }, RBAC: listers(t, nil)}))
	require.Equal(t, 1, judged)
}
