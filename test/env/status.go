package env

import (
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Subscription reads the namespace's only Subscription.
func (tn *Tenant) Subscription(c assert.TestingT) *operatorsv1alpha1.Subscription {
	list := &operatorsv1alpha1.SubscriptionList{}
	assert.NoError(c, tn.Cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	if !assert.Len(c, list.Items, 1) {
		return &operatorsv1alpha1.Subscription{}
	}
	return &list.Items[0]
}

// CSV reads a ClusterServiceVersion in the namespace.
func (tn *Tenant) CSV(c assert.TestingT, name string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	assert.NoError(c, tn.Get(name, csv))
	return csv
}

// SubscriptionSays waits for a condition of the Subscription to be True with this reason and a message that contains
// the text.
func (tn *Tenant) SubscriptionSays(condition operatorsv1alpha1.SubscriptionConditionType, reason, text string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		got := tn.Subscription(c).Status.GetCondition(condition)
		assert.Equal(c, corev1.ConditionTrue, got.Status, "%s: %s", got.Reason, got.Message)
		assert.Equal(c, reason, got.Reason)
		assert.Contains(c, got.Message, text)
	})
}

// PlanSays waits for the InstallPlan's Installed condition to be False with this reason and a message that contains the
// text.
func (tn *Tenant) PlanSays(reason, text string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		got := tn.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
		assert.Equal(c, corev1.ConditionFalse, got.Status)
		assert.Equal(c, reason, string(got.Reason))
		assert.Contains(c, got.Message, text)
	})
}

// GroupSays waits until the OperatorGroup's condition has this status, this reason and a message that contains the
// text.
func (tn *Tenant) GroupSays(group, condition string, status metav1.ConditionStatus, reason, text string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, tn.Get(group, og))
		i := slices.IndexFunc(og.Status.Conditions, func(x metav1.Condition) bool { return x.Type == condition })
		if !assert.GreaterOrEqual(c, i, 0, "the OperatorGroup has no condition %s", condition) {
			return
		}
		assert.Equal(c, status, og.Status.Conditions[i].Status)
		assert.Equal(c, reason, og.Status.Conditions[i].Reason)
		assert.Contains(c, og.Status.Conditions[i].Message, text)
	})
}

// PermissionsMissing waits until the InstallPlan and the Subscription report missing permissions with the same message,
// and returns the message.
func (tn *Tenant) PermissionsMissing() string {
	tn.T.Helper()
	return tn.found(names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions)
}

// ObjectsRefused waits until the InstallPlan and the Subscription report objects that the API server or Remit refuses, with
// the same message, and returns the message.
func (tn *Tenant) ObjectsRefused() string {
	tn.T.Helper()
	return tn.found(names.ConditionObjectsRefused, names.ReasonRefusedByAPIServer, names.ReasonRefusedByRemit)
}

func (tn *Tenant) found(condition string, reasons ...string) string {
	tn.T.Helper()
	var message string
	tn.Eventually(func(c *assert.CollectT) {
		plan := tn.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanConditionType(condition))
		sub := tn.Subscription(c).Status.GetCondition(operatorsv1alpha1.SubscriptionConditionType(condition))
		assert.Equal(c, corev1.ConditionTrue, plan.Status)
		assert.Equal(c, corev1.ConditionTrue, sub.Status)
		assert.Contains(c, reasons, string(plan.Reason))
		assert.Equal(c, string(plan.Reason), sub.Reason)
		assert.Equal(c, plan.Message, sub.Message)
		message = plan.Message
	})
	return message
}

// Report returns the ConfigMap with the InstallPlan's report.
func (tn *Tenant) Report() *corev1.ConfigMap {
	tn.T.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(tn.T, tn.Get(names.ReportPrefix+tn.Plan(tn.T).Name, cm))
	return cm
}

// Complete waits until the InstallPlan is complete.
func (tn *Tenant) Complete() *operatorsv1alpha1.InstallPlan {
	tn.T.Helper()
	var ip *operatorsv1alpha1.InstallPlan
	tn.Eventually(func(c *assert.CollectT) {
		ip = tn.Plan(c)
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseComplete, ip.Status.Phase, ip.Status.Message)
	})
	return ip
}

// Succeeded waits until the ClusterServiceVersion has succeeded and the Subscription reports it as installed.
func (tn *Tenant) Succeeded(name string) *operatorsv1alpha1.ClusterServiceVersion {
	tn.T.Helper()
	var csv *operatorsv1alpha1.ClusterServiceVersion
	tn.Eventually(func(c *assert.CollectT) {
		csv = tn.CSV(c, name)
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, csv.Status.Phase, "%s: %s", csv.Status.Reason, csv.Status.Message)
		sub := tn.Subscription(c)
		assert.Equal(c, operatorsv1alpha1.SubscriptionState(operatorsv1alpha1.SubscriptionStateAtLatest), sub.Status.State)
		assert.Equal(c, name, sub.Status.InstalledCSV)
	})
	return csv
}

// UntilComplete calls do and returns how long it took until a watch reported that the InstallPlan was complete.
func (tn *Tenant) UntilComplete(do func()) time.Duration {
	tn.T.Helper()
	list := &operatorsv1alpha1.InstallPlanList{}
	require.NoError(tn.T, tn.Cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	w, err := tn.Cluster.Client.Watch(tn.T.Context(), &operatorsv1alpha1.InstallPlanList{}, client.InNamespace(tn.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	require.NoError(tn.T, err)
	defer w.Stop()
	begin := time.Now()
	do()
	timeout := time.After(Patience)
	for {
		select {
		case e, ok := <-w.ResultChan():
			require.True(tn.T, ok, "the watch ended")
			if isComplete(e) {
				return time.Since(begin)
			}
		case <-timeout:
			require.Fail(tn.T, "not complete", tn.Plan(tn.T).Status.Message)
		}
	}
}

func isComplete(e watch.Event) bool {
	ip, ok := e.Object.(*operatorsv1alpha1.InstallPlan)
	return ok && ip.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete
}

// GrantMissing waits until the InstallPlan reports missing permissions, and grants them. The default account is missing
// none.
func (tn *Tenant) GrantMissing() {
	tn.T.Helper()
	if !tn.Cluster.IsCompat() {
		tn.Paste(tn.PermissionsMissing())
	}
}

// Paste grants what a PermissionsMissing message reports, as the cluster administrator. It applies the objects in the report of the
// InstallPlan that has this message. The message also contains them, but no program should cut them out of it.
func (tn *Tenant) Paste(message string) {
	tn.T.Helper()
	list := &operatorsv1alpha1.InstallPlanList{}
	require.NoError(tn.T, tn.Cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	for i := range list.Items {
		if list.Items[i].Status.GetCondition(names.ConditionPermissionsMissing).Message != message {
			continue
		}
		report := &corev1.ConfigMap{}
		require.NoError(tn.T, tn.Get(names.ReportPrefix+list.Items[i].Name, report))
		tn.Apply(report.Data[preflight.FileGrant])
		return
	}
	require.Fail(tn.T, "no InstallPlan has the message", message)
}

// Apply creates the objects in the given YAML, as the cluster administrator would with kubectl apply -f -.
func (tn *Tenant) Apply(text string) {
	tn.T.Helper()
	for _, doc := range strings.Split(text, "---\n") {
		if strings.TrimSpace(doc) == "" || strings.HasPrefix(doc, "#") {
			continue
		}
		obj := tn.decode(doc)
		tn.Create(obj)
	}
}

func (tn *Tenant) decode(doc string) client.Object {
	tn.T.Helper()
	obj, err := runtime.Decode(strict(tn.Cluster.Client.Scheme()), []byte(doc))
	require.NoError(tn.T, err, doc)
	typed, ok := obj.(client.Object)
	require.True(tn.T, ok, doc)
	return typed
}

func strict(scheme *runtime.Scheme) runtime.Decoder {
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// Approve waits until the newest InstallPlan in the namespace installs this version and requires approval, and approves
// it.
func (tn *Tenant) Approve(version string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		list := &operatorsv1alpha1.InstallPlanList{}
		assert.NoError(c, tn.Cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
		if !assert.NotEmpty(c, list.Items) {
			return
		}
		newest := slices.MaxFunc(list.Items, func(a, b operatorsv1alpha1.InstallPlan) int { return a.Spec.Generation - b.Spec.Generation })
		if !assert.Equal(c, []string{version}, newest.Spec.ClusterServiceVersionNames) ||
			!assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, newest.Status.Phase) {
			return
		}
		before := newest.DeepCopy()
		newest.Spec.Approved = true
		assert.NoError(c, tn.Cluster.Client.Patch(tn.T.Context(), &newest, client.MergeFrom(before)))
	})
}

// Installed waits until the namespace has exactly these ClusterServiceVersions and all have succeeded.
func (tn *Tenant) Installed(versions ...string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		list := &operatorsv1alpha1.ClusterServiceVersionList{}
		assert.NoError(c, tn.Cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
		var got []string
		for _, csv := range list.Items {
			got = append(got, csv.Name)
			assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, csv.Status.Phase, "%s: %s: %s", csv.Name, csv.Status.Reason, csv.Status.Message)
		}
		slices.Sort(got)
		assert.Equal(c, versions, got)
	})
}
