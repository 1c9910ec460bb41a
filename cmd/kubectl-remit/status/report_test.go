package status

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1}
}

func group(account string, conditions ...metav1.Condition) operatorsv1.OperatorGroup {
	og := operatorsv1.OperatorGroup{ObjectMeta: objectMeta("team")}
	og.Spec.ServiceAccountName = account
	og.Status.Namespaces = []string{"ns"}
	og.Status.Conditions = conditions
	return og
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 1}
}

var usable = condition(conditionUsable, metav1.ConditionTrue, "Enrolled", "installs act as ServiceAccount ns/acct")

// givenWorld returns a world in which acct exists, is enrolled and has no permissions.
func givenWorld(t *testing.T, edit ...func(*world)) *world {
	t.Helper()
	enrollment := scoped.Enrollment(types.NamespacedName{Namespace: "ns", Name: "acct"}, names.DefaultNamespace)
	w := &world{
		groups:   []operatorsv1.OperatorGroup{group("acct", usable)},
		accounts: map[types.NamespacedName]Answer{{Namespace: "ns", Name: "acct"}: Yes},
		complete: true,
		rbac:     listers(t, enrollment...),
	}
	for _, e := range edit {
		e(w)
	}
	return w
}

func listers(t *testing.T, objs ...client.Object) *rbac.Listers {
	t.Helper()
	var roles, bindings []any
	for _, obj := range objs {
		switch obj.(type) {
		case *rbacv1.Role:
			roles = append(roles, obj)
		case *rbacv1.RoleBinding:
			bindings = append(bindings, obj)
		}
	}
	return &rbac.Listers{
		Roles:               rbacv1listers.NewRoleLister(store(t, roles...)),
		RoleBindings:        rbacv1listers.NewRoleBindingLister(store(t, bindings...)),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(store(t)),
		ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(store(t)),
	}
}

func shown(t *testing.T, w *world) (text string, r *Report) {
	t.Helper()
	r = newReport(t.Context(), w, names.DefaultNamespace)
	var out bytes.Buffer
	require.NoError(t, r.text(&out))
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &Report{}))
	return out.String(), r
}

func TestReportsAUsableAccount(t *testing.T) {
	text, r := shown(t, givenWorld(t))
	require.Equal(t, "OperatorGroup ns/team\n"+
		"  Account: ServiceAccount ns/acct (exists: yes, enrolled: yes, usable: yes)\n"+
		"  Targets: ns\n  Installed: nothing\n  Blocked: nothing\n  Permissions that no install needs: nothing\n", text)
	require.False(t, r.blocked())
}

func TestReportsAccountsThatAreNotUsable(t *testing.T) {
	unusable := func(reason, message string) metav1.Condition {
		return condition(conditionUsable, metav1.ConditionFalse, reason, message)
	}
	for name, c := range map[string]struct {
		edit    func(*world)
		want    Account
		blocked bool
	}{
		"deleted": {func(w *world) {
			w.groups[0].Status.Conditions[0] = unusable("ServiceAccountNotFound", "ServiceAccount acct not found")
			w.accounts[types.NamespacedName{Namespace: "ns", Name: "acct"}] = No
		}, Account{Name: "ns/acct", Exists: No, Enrolled: Yes, Usable: No, Message: "ServiceAccount acct not found"}, true},
		"not enrolled": {func(w *world) {
			w.groups[0].Status.Conditions[0] = unusable("AccountNotEnrolled", "apply this")
			w.rbac = listers(t)
		}, Account{Name: "ns/acct", Exists: Yes, Enrolled: No, Usable: No, Message: "apply this"}, true},
		"not reconciled": {func(w *world) { w.groups[0].Status.Conditions = nil },
			Account{Name: "ns/acct", Exists: Yes, Enrolled: Yes, Usable: Unknown, Message: "Remit has not reconciled the OperatorGroup yet"}, false},
		"changed since the last reconcile": {func(w *world) { w.groups[0].Generation = 2 },
			Account{Name: "ns/acct", Exists: Yes, Enrolled: Yes, Usable: Unknown, Message: "Remit has not reconciled the OperatorGroup yet"}, false},
		"not allowed to read": {func(w *world) {
			w.accounts[types.NamespacedName{Namespace: "ns", Name: "acct"}] = Unknown
			w.rbac = nil
		}, Account{Name: "ns/acct", Exists: Unknown, Enrolled: Unknown, Usable: Yes, Message: usable.Message}, false},
		"a default account": {func(w *world) { w.groups[0].Spec.ServiceAccountName = "" },
			Account{Default: true, Usable: Yes, Message: usable.Message}, false},
		"no account": {func(w *world) { w.groups[0] = group("", unusable("NoAccount", "names none")) },
			Account{Usable: No, Message: "names none"}, true},
		"recreated": {func(w *world) {
			w.groups[0].Status.Conditions = append(w.groups[0].Status.Conditions, condition(conditionChanged, metav1.ConditionTrue, "AccountRecreated", "it was deleted"))
		}, Account{Name: "ns/acct", Exists: Yes, Enrolled: Yes, Usable: Yes, Message: usable.Message + ". it was deleted"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, r := shown(t, givenWorld(t, c.edit))
			require.Equal(t, c.want, r.OperatorGroups[0].Account)
			require.Equal(t, c.blocked, r.blocked())
		})
	}
}

func subscription(conditions ...operatorsv1alpha1.SubscriptionCondition) operatorsv1alpha1.Subscription {
	return operatorsv1alpha1.Subscription{ObjectMeta: objectMeta("sub"), Status: operatorsv1alpha1.SubscriptionStatus{
		Conditions: conditions, InstallPlanRef: &corev1.ObjectReference{Name: "install-1"},
	}}
}

func isTrue(kind operatorsv1alpha1.SubscriptionConditionType, reason, message string) operatorsv1alpha1.SubscriptionCondition {
	return operatorsv1alpha1.SubscriptionCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

func plan(name string, phase operatorsv1alpha1.InstallPlanPhase, reason, message string) operatorsv1alpha1.InstallPlan {
	ip := operatorsv1alpha1.InstallPlan{ObjectMeta: objectMeta(name)}
	ip.Status.Phase = phase
	ip.Status.Conditions = []operatorsv1alpha1.InstallPlanCondition{{
		Type: operatorsv1alpha1.InstallPlanInstalled, Status: corev1.ConditionFalse, Reason: operatorsv1alpha1.InstallPlanConditionReason(reason), Message: message,
	}}
	return ip
}

func withMessage(c operatorsv1alpha1.SubscriptionCondition, message string) operatorsv1alpha1.SubscriptionCondition {
	c.Message = message
	return c
}

func TestReportsWhatIsBlocked(t *testing.T) {
	missing := isTrue(names.ConditionPermissionsMissing, "AccountLacksPermissions", "is missing 2 permissions\n- a\n- b\nTo grant the missing permissions, apply:\n---\nkind: Role\n")
	pending := isTrue(operatorsv1alpha1.SubscriptionInstallPlanPending, "Installing", "is missing 2 permissions")
	refused := isTrue(names.ConditionObjectsRefused, "RefusedByAPIServer", "2 object(s) were refused; nothing was written.\n- Service ns/a: x\n- Service ns/b: x")
	healthy := operatorsv1alpha1.SubscriptionCondition{Type: operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy, Status: corev1.ConditionFalse}
	for name, c := range map[string]struct {
		edit func(*world)
		want []Block
	}{
		"permissions, once": {func(w *world) {
			w.subscriptions = []operatorsv1alpha1.Subscription{subscription(healthy, missing, pending)}
			w.plans = []operatorsv1alpha1.InstallPlan{plan("install-1", operatorsv1alpha1.InstallPlanPhaseInstalling, "AccountLacksPermissions", "missing")}
		}, []Block{{"Subscription", "sub", "PermissionsMissing", "AccountLacksPermissions", "is missing 2 permissions\n- a\n- b"}}},
		"something else": {func(w *world) { w.subscriptions = []operatorsv1alpha1.Subscription{subscription(pending)} },
			[]Block{{"Subscription", "sub", "InstallPlanPending", "Installing", "is missing 2 permissions"}}},
		"a plan without a Subscription": {func(w *world) {
			w.plans = []operatorsv1alpha1.InstallPlan{plan("install-2", operatorsv1alpha1.InstallPlanPhaseInstalling, "InstallCheckFailed", "why")}
		}, []Block{{"InstallPlan", "install-2", "Installing", "InstallCheckFailed", "why"}}},
		"approval": {func(w *world) {
			w.plans = []operatorsv1alpha1.InstallPlan{plan("install-2", operatorsv1alpha1.InstallPlanPhaseRequiresApproval, "", "")}
		}, []Block{{"InstallPlan", "install-2", "RequiresApproval", "", "InstallPlan ns/install-2 is waiting for approval.\n" +
			"To see what it writes: kubectl remit plan show install-2 -n ns\n" +
			`To approve it: kubectl patch installplan install-2 -n ns --type merge --patch '{"spec":{"approved":true}}'` + "\nNo catalog has confirmed the plan's content here; plan show compares it with a bundle from --bundle."}}},
		"approval, reported by the Subscription": {func(w *world) {
			w.subscriptions = []operatorsv1alpha1.Subscription{subscription(isTrue(operatorsv1alpha1.SubscriptionInstallPlanPending, "RequiresApproval", ""))}
			w.plans = []operatorsv1alpha1.InstallPlan{plan("install-1", operatorsv1alpha1.InstallPlanPhaseRequiresApproval, "", "")}
		}, []Block{{"Subscription", "sub", "InstallPlanPending", "RequiresApproval", string(howToApprove(types.NamespacedName{Namespace: "ns", Name: "install-1"}))}}},
		"approval of what can be no plan": {func(w *world) {
			sub := subscription(isTrue(operatorsv1alpha1.SubscriptionInstallPlanPending, "RequiresApproval", ""))
			sub.Status.InstallPlanRef.Name = "x; id"
			w.subscriptions = []operatorsv1alpha1.Subscription{sub}
		}, []Block{{"Subscription", "sub", "InstallPlanPending", "RequiresApproval", ""}}},
		"refused objects, reported once": {func(w *world) {
			w.subscriptions = []operatorsv1alpha1.Subscription{subscription(withMessage(pending, refused.Message), refused)}
		}, []Block{{"Subscription", "sub", "ObjectsRefused", "RefusedByAPIServer", refused.Message}}},
		"refused objects and permissions": {func(w *world) {
			both := "is missing 1 permission\n- a\n" + refused.Message
			w.subscriptions = []operatorsv1alpha1.Subscription{subscription(refused, withMessage(pending, both), withMessage(missing, both))}
		}, []Block{{"Subscription", "sub", "PermissionsMissing", "AccountLacksPermissions", "is missing 1 permission\n- a\n" + refused.Message}}},
		"refused objects of a plan that has failed": {func(w *world) {
			w.subscriptions = []operatorsv1alpha1.Subscription{subscription(refused, isTrue(operatorsv1alpha1.SubscriptionInstallPlanFailed, "InstallComponentFailed", refused.Message))}
		}, []Block{{"Subscription", "sub", "InstallPlanFailed", "InstallComponentFailed", refused.Message}}},
		"a reason other than refused objects": {func(w *world) {
			w.subscriptions = []operatorsv1alpha1.Subscription{subscription(refused, withMessage(pending, "ServiceAccount ns/acct not found"))}
		}, []Block{
			{"Subscription", "sub", "ObjectsRefused", "RefusedByAPIServer", refused.Message},
			{"Subscription", "sub", "InstallPlanPending", "Installing", "ServiceAccount ns/acct not found"},
		}},
		"plans that are done": {func(w *world) {
			w.plans = []operatorsv1alpha1.InstallPlan{
				plan("install-2", operatorsv1alpha1.InstallPlanPhaseComplete, "", ""),
				plan("install-3", operatorsv1alpha1.InstallPlanPhaseFailed, reasonSuperseded, "by install-2"),
				plan("install-4", "", "", ""),
			}
		}, nil},
		"two groups": {func(w *world) {
			w.groups[0].Status.Conditions = append(w.groups[0].Status.Conditions, condition(conditionMultiple, metav1.ConditionTrue, "MultipleOperatorGroupsFound", "Multiple"))
		}, []Block{{"OperatorGroup", "team", "MultipleOperatorGroup", "MultipleOperatorGroupsFound", "Multiple"}}},
		"in another namespace": {func(w *world) {
			w.plans = []operatorsv1alpha1.InstallPlan{plan("install-2", operatorsv1alpha1.InstallPlanPhaseInstalling, "x", "y")}
			w.plans[0].Namespace = "other"
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := givenWorld(t, c.edit)
			_, r := shown(t, w)
			require.Equal(t, c.want, r.OperatorGroups[0].Blocked)
			require.Equal(t, len(c.want) > 0, r.blocked())
		})
	}
}

func TestNotesAnUpgradeThatIsHeldBack(t *testing.T) {
	text, r := shown(t, givenWorld(t, func(w *world) {
		w.subscriptions = []operatorsv1alpha1.Subscription{subscription(isTrue(names.ConditionUpgradeHeldBack, "UpgradeClashes", "a.v2 cannot replace a.v1: why"))}
	}))
	require.Contains(t, text, "  Blocked: nothing\n")
	require.Contains(t, text, "  Note: Subscription sub: a.v2 cannot replace a.v1: why\n")
	require.False(t, r.blocked())
}

func TestReportsANamespaceThatIsLeftToOLM(t *testing.T) {
	text, r := shown(t, givenWorld(t, func(w *world) {
		w.groups[0].Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	}))
	require.Contains(t, text, "    OperatorGroup team: ManagedBy: LeftToOLM\n      Remit does nothing in this namespace, because the annotation remit.dev/managed-by=olm")
	require.True(t, r.blocked())
}

func TestReportsSubscriptionsWithoutAnOperatorGroup(t *testing.T) {
	text, r := shown(t, givenWorld(t, func(w *world) {
		w.groups = nil
		w.subscriptions = []operatorsv1alpha1.Subscription{subscription(isTrue(operatorsv1alpha1.SubscriptionResolutionFailed, "ErrorPreventedResolution", "no OperatorGroup"))}
	}))
	require.Equal(t, "Namespace ns has no OperatorGroup\n  Installed: nothing\n  Blocked:\n"+
		"    Subscription sub: ResolutionFailed: ErrorPreventedResolution\n      no OperatorGroup\n", text)
	require.True(t, r.blocked())
}

func csv(phase operatorsv1alpha1.ClusterServiceVersionPhase, message string) operatorsv1alpha1.ClusterServiceVersion {
	c := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: objectMeta("demo.v1")}
	c.Status.Phase, c.Status.Reason, c.Status.Message = phase, "Because", message
	return c
}

func TestReportsWhatIsInstalled(t *testing.T) {
	pending := csv(operatorsv1alpha1.CSVPhasePending, "requirements not met")
	pending.Status.RequirementStatus = []operatorsv1alpha1.RequirementStatus{
		{Kind: "ServiceAccount", Name: "demo", Status: operatorsv1alpha1.RequirementStatusReasonPresent},
		{Kind: "CustomResourceDefinition", Name: "a.b", Status: operatorsv1alpha1.RequirementStatusReasonNotPresent, Message: "CRD is not present"},
	}
	for want, c := range map[string]operatorsv1alpha1.ClusterServiceVersion{
		"    demo.v1: Succeeded\n": csv(operatorsv1alpha1.CSVPhaseSucceeded, "install strategy completed with no errors"),
		"    demo.v1: Succeeded\n      Because: fine; ExceedsAccount: pods\n":                                                               csv(operatorsv1alpha1.CSVPhaseSucceeded, "fine; ExceedsAccount: pods"),
		"    demo.v1: Succeeded\n      Because: fine; Deployment ns/d was edited\n":                                                         csv(operatorsv1alpha1.CSVPhaseSucceeded, "fine; Deployment ns/d was edited"),
		"    demo.v1: Pending\n      Because: requirements not met\n      - CustomResourceDefinition a.b: NotPresent: CRD is not present\n": pending,
	} {
		text, r := shown(t, givenWorld(t, func(w *world) { w.csvs = []operatorsv1alpha1.ClusterServiceVersion{c} }))
		require.Contains(t, text, "  Installed:\n"+want+"  Blocked: nothing\n")
		require.Contains(t, text, "Note: cannot determine which permissions of the account are not needed: no InstallPlan contains the manifests from which ClusterServiceVersion demo.v1 was installed")
		require.Equal(t, c.Status.Phase != operatorsv1alpha1.CSVPhaseSucceeded, r.blocked())
	}
}

func TestReportsNoExcessIfSomethingIsUnknown(t *testing.T) {
	for _, edit := range []func(*world){
		func(w *world) { w.complete = false },
		func(w *world) { w.rbac = nil },
		func(w *world) {
			w.plans = []operatorsv1alpha1.InstallPlan{plan("install-2", operatorsv1alpha1.InstallPlanPhaseInstalling, "x", "y")}
		},
	} {
		text, r := shown(t, givenWorld(t, edit))
		require.Nil(t, r.OperatorGroups[0].Unneeded)
		require.NotContains(t, text, "Permissions that no install needs")
	}
}

func TestTruncatesTexts(t *testing.T) {
	var b bytes.Buffer
	indent(&b, "  ", strings.Repeat("line\n", maxLines+5))
	require.Equal(t, strings.Repeat("  line\n", maxLines)+"  and 5 more lines: see -o yaml\n", b.String())

	b.Reset()
	rules(&b, "head:", make([]rbacv1.PolicyRule, maxRules+1))
	require.Contains(t, b.String(), "and 1 more: see -o yaml\n")
}

// Users can set annotations and labels, and thereby must not hide what is installed.
func TestHidesNoCSVThatIsNotACopy(t *testing.T) {
	labeled := func(edit func(*operatorsv1alpha1.ClusterServiceVersion)) operatorsv1alpha1.ClusterServiceVersion {
		c := csv(operatorsv1alpha1.CSVPhaseFailed, "the account lost a permission")
		c.Annotations, c.Labels = map[string]string{}, map[string]string{}
		edit(&c)
		return c
	}
	forged := func(c *operatorsv1alpha1.ClusterServiceVersion) {
		c.Labels[names.LabelCopiedFrom] = "other"
		c.Annotations[names.AnnotationProof], c.Annotations[names.AnnotationCopyHash] = "x", "x"
	}
	withoutGroup := func(all ...operatorsv1alpha1.ClusterServiceVersion) *world {
		return givenWorld(t, func(w *world) { w.groups = nil; w.setCSVs(all) })
	}
	for name, edit := range map[string]func(*operatorsv1alpha1.ClusterServiceVersion){
		"made by hand": func(*operatorsv1alpha1.ClusterServiceVersion) {},
		"OLM's annotation": func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Annotations[names.AnnotationOperatorNamespace] = "x"
		},
		"the label only":        func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Labels[names.LabelCopiedFrom] = "other" },
		"the label and a proof": forged,
	} {
		text, r := shown(t, withoutGroup(labeled(edit)))
		require.Contains(t, text, "Namespace ns has no OperatorGroup\n  Installed:\n    demo.v1: Failed\n", name)
		require.Contains(t, text, "the account lost a permission", name)
		require.Equal(t, strings.HasPrefix(name, "the label"), strings.Contains(text, `claims to be a copy of a ClusterServiceVersion in namespace "other"`), name)
		require.True(t, r.blocked(), name)
	}

	copied := labeled(func(c *operatorsv1alpha1.ClusterServiceVersion) {
		forged(c)
		c.Status.Reason = operatorsv1alpha1.CSVReasonCopied
	})
	_, r := shown(t, withoutGroup(copied))
	require.Empty(t, r.OperatorGroups)
	require.Contains(t, strings.Join(r.Notes, ""), "1 ClusterServiceVersions in 1 namespaces without OperatorGroups are copies")
	w := withoutGroup(copied)
	w.requested = "ns"
	text, _ := shown(t, w)
	require.Contains(t, text, "Note: 1 ClusterServiceVersions are copies of versions in other namespaces. To list them: kubectl get clusterserviceversions -n ns -l olm.copiedFrom")
}
