package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

const (
	creates = "remit: create Operator demo.t1"
	reports = "remit: patch status of Operator demo.t1"
	deletes = "remit: delete Operator demo.t1"
)

// world is a cluster with a Subscription to package demo in namespace t1, and with an OperatorGroup there.
type world struct {
	*recorded.Server
	t *testing.T
	r *Reconciler
}

type change func(*world)

func indexAll(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(kit.IndexLineage(ctx, indexer), Index(ctx, indexer))
}

func newWorld(t *testing.T, changes ...change) *world {
	t.Helper()
	w := &world{t: t, Server: recorded.New(t, indexAll, namespace("t1"), namespace("t2"),
		&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "og"}}, subscription("t1", "demo"))}
	r, err := New(Options{Client: trimmed{w.Cached("remit")}, Proofs: proofs.Keys()})
	require.NoError(t, err)
	w.r = r
	for _, c := range changes {
		c(w)
	}
	return w
}

// trimmed reads Operators from a cache that contains them as Trim leaves them.
type trimmed struct{ client.Client }

// List implements client.Client.
func (c trimmed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if operators, ok := list.(*operatorsv1.OperatorList); ok {
		for i := range operators.Items {
			Trim(&operators.Items[i])
		}
	}
	return err
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "ns", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
}

func subscription(namespace, pkg string) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pkg}, Spec: &operatorsv1alpha1.SubscriptionSpec{Package: pkg}}
}

func owner(pkg, namespace string) ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: namespace}, CSV: pkg + ".v1", UID: "csv", Proofs: proofs.Keys()}
}

// installed returns the objects of an install, with its marks.
func installed(pkg, namespace, target string) []client.Object {
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: named(namespace, pkg+".v1")}
	csv.UID, csv.Status.Phase, csv.Status.Reason = "csv", "Succeeded", "InstallSucceeded"
	objs := []client.Object{
		csv, &appsv1.Deployment{ObjectMeta: named(namespace, pkg)}, &rbacv1.Role{ObjectMeta: named(target, pkg)},
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: named("", "things."+pkg+"."+namespace)},
	}
	for _, obj := range objs {
		proofs.Mark(obj, owner(pkg, namespace))
	}
	return append(objs, &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pkg + ".v1", OwnerReferences: []metav1.OwnerReference{{UID: "csv"}}}})
}

func with(objs ...client.Object) change { return func(w *world) { w.Put(objs...) } }

func without(objs ...client.Object) change { return func(w *world) { w.Delete(objs...) } }

func refusing(request string, err error) change { return func(w *world) { w.Refuse(request, err) } }

// reconciled reconciles twice, because the creation of an Operator causes another reconcile.
func reconciled(w *world) {
	for range 2 {
		_, err := w.reconcile("t1")
		require.NoError(w.t, err)
	}
	w.Writes()
}

func created(w *world) {
	_, err := w.reconcile("t1")
	require.NoError(w.t, err)
	w.Writes()
}

func (w *world) reconcile(namespace string) (ctrl.Result, error) {
	w.t.Helper()
	return w.r.Reconcile(w.t.Context(), kit.Request("", namespace))
}

func (w *world) operator(name string) *operatorsv1.Operator {
	w.t.Helper()
	out := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Get(out)
	return out
}

func (w *world) editOperator(edit func(*operatorsv1.Operator)) {
	recorded.Edit(w.Server, &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: "demo.t1"}}, edit)
}

func foreign() *operatorsv1.Operator {
	return &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: "demo.t1", Labels: map[string]string{"by": "olm"}}}
}

func left(w *world) {
	recorded.Edit(w.Server, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "og"}}, func(og *operatorsv1.OperatorGroup) {
		og.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	})
}

var group = &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "og"}}

func TestWritesOnlyOperatorsOfTheNamespaceAndTheirStatus(t *testing.T) {
	t.Parallel()
	sub := subscription("t1", "demo")
	labeled := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "x.v1", Labels: map[string]string{"operators.coreos.com/x.t1": "", names.LabelLineage: owner("x", "t1").Mark()}}}
	direct := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "y.v1"}}
	byUser := owner("y", "t1")
	byUser.Direct = true
	proofs.Mark(direct, byUser)
	for _, row := range []struct {
		name  string
		given []change
		want  []string
		err   string
	}{
		{"a Subscription has an Operator at once", nil, []string{creates}, ""},
		{"the status of a new Operator follows", []change{created}, []string{reports}, ""},
		{"a package whose name is not valid has none", []change{with(subscription("t1", "a_b"))}, []string{creates}, ""},
		{"a namespace without an OperatorGroup gets none", []change{without(group)}, nil, ""},
		{"an Operator exists without its OperatorGroup", []change{reconciled, without(group)}, nil, ""},
		{"a namespace of OLM v0 gets none", []change{left}, nil, ""},
		{"Operators of a namespace of OLM v0 are not deleted", []change{reconciled, without(sub), left}, nil, ""},
		{"a ClusterServiceVersion without a Subscription has an Operator", []change{without(sub), with(installed("demo", "t1", "t1")...)}, []string{creates, reports}, ""},
		{"the labels of a ClusterServiceVersion are not sufficient", []change{without(sub), with(labeled)}, nil, ""},
		{"a ClusterServiceVersion that a user created has none", []change{without(sub), with(direct)}, nil, ""},
		{"nothing is written if nothing has changed", []change{reconciled}, nil, ""},
		{"a new component is reported", []change{reconciled, with(installed("demo", "t1", "t1")...)}, []string{reports}, ""},
		{"a status that another client wrote is corrected", []change{reconciled, func(w *world) {
			w.editOperator(func(o *operatorsv1.Operator) { o.Status.Components = nil })
		}}, []string{reports}, ""},
		{"an Operator without components is deleted", []change{reconciled, without(sub)}, []string{deletes}, ""},
		{"an Operator that has a component is not deleted", []change{with(installed("demo", "t1", "t1")...), reconciled, without(sub, installed("demo", "t1", "t1")[0])}, []string{reports}, ""},
		{"an Operator of a deleted namespace is deleted", []change{reconciled, without(namespace("t1"))}, []string{deletes}, ""},
		{"the status of an Operator that another client created is written", []change{with(foreign())}, []string{reports}, ""},
		{"an Operator that another client created is not deleted", []change{with(foreign()), without(sub)}, nil, ""},
		{"an Operator that is being deleted is left alone", []change{reconciled, func(w *world) {
			w.editOperator(func(o *operatorsv1.Operator) { o.Finalizers = []string{"a/b"} })
			w.Delete(&operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: "demo.t1"}}, sub)
		}}, nil, ""},
		{"an Operator that was created in the meantime", []change{refusing(creates, apierrors.NewAlreadyExists(operatorsv1.Resource("operators"), "demo.t1"))}, []string{creates + " (refused)"}, ""},
		{"a refusal is retried", []change{refusing(creates, apierrors.NewForbidden(operatorsv1.Resource("operators"), "demo.t1", errors.New("policy")))}, []string{creates + " (refused)"}, "policy"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, row.given...)
			_, err := w.reconcile("t1")
			require.Equal(t, row.want, w.Writes())
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			_, err = w.reconcile("t2")
			require.NoError(t, err)
			require.Empty(t, w.Writes())
		})
	}
}

func TestTheComponentsAreWhatRemitCreated(t *testing.T) {
	t.Parallel()
	sub := subscription("t1", "demo")
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "install-x", UID: "plan"}}
	sub.Status.InstallPlanRef = &corev1.ObjectReference{Namespace: "t1", Name: "install-x", UID: "plan"}
	w := newWorld(t, with(installed("demo", "t1", "t2")...), with(installed("other", "t1", "t1")...), with(installed("demo", "t2", "t1")...), with(plan, sub))
	reconciled(w)
	want := []string{
		"ClusterServiceVersion t1/demo.v1", "CustomResourceDefinition /things.demo.t1", "Deployment t1/demo", "InstallPlan t1/install-x",
		"OperatorCondition t1/demo.v1", "Role t2/demo", "Subscription t1/demo",
	}
	require.Equal(t, want, lines(w.operator("demo.t1").Status))
	require.Contains(t, lines(w.operator("other.t1").Status), "CustomResourceDefinition /things.other.t1")
	made := w.operator("demo.t1")
	require.Equal(t, []metav1.OwnerReference{ownerutil.NamespaceReference("t1", "ns")}, made.OwnerReferences)
	require.Equal(t, operatorsv1.ConditionType("Succeeded"), made.Status.Components.Refs[0].Conditions[0].Type)
	require.Empty(t, made.Status.Components.Refs[0].UID)
}

// Users of this or another namespace can set every label, but not the proof.
func TestLabelsDoNotMakeComponents(t *testing.T) {
	t.Parallel()
	genuine := installed("demo", "t1", "t1")
	labels, annotations := genuine[2].GetLabels(), genuine[2].GetAnnotations()
	forged := []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "forged"}}, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "forged"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "forged"}}, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "forged"}},
		&operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "forged"}},
	}
	for _, obj := range forged {
		obj.SetLabels(labels)
		obj.SetAnnotations(annotations)
	}
	cond := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1"}}
	w := newWorld(t, with(genuine[:4]...), with(cond), with(forged...), func(w *world) {
		recorded.Edit(w.Server, subscription("t1", "demo"), func(sub *operatorsv1alpha1.Subscription) {
			sub.Status.InstallPlanRef = &corev1.ObjectReference{Name: "install-x", UID: "other"}
		})
	}, with(&operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "install-x", UID: "plan"}}))
	reconciled(w)
	require.Equal(t, []string{"ClusterServiceVersion t1/demo.v1", "CustomResourceDefinition /things.demo.t1", "Deployment t1/demo", "Role t1/demo", "Subscription t1/demo"},
		lines(w.operator("demo.t1").Status))
	require.Empty(t, w.r.namespaces(forged[0]), "forged objects do not cause reconciles either")
}

// An object that was created for an earlier namespace with the same name belongs to no Operator of the new namespace.
func TestARecreatedNamespaceInheritsNothing(t *testing.T) {
	t.Parallel()
	objs := installed("demo", "t1", "t1")
	again := namespace("t1")
	again.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour))
	w := newWorld(t, with(objs[3]), with(again))
	reconciled(w)
	require.Equal(t, []string{"Subscription t1/demo"}, lines(w.operator("demo.t1").Status))
}

func TestANamespaceHasALimitedNumberOfOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range maxOperators + 10 {
		w.Put(subscription("t1", fmt.Sprintf("p%04d", i)))
	}
	_, err := w.reconcile("t1")
	require.NoError(t, err)
	require.Len(t, w.Writes(), maxOperators)
	reconciled(w)
	w.Put(subscription("t1", "a"))
	_, err = w.reconcile("t1")
	require.NoError(t, err)
	require.Equal(t, []string{"remit: create Operator a.t1", fmt.Sprintf("remit: delete Operator p%04d.t1", maxOperators-2)}, w.Writes())
}

func TestAConflictIsRetriedQuietly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, reconciled, with(installed("demo", "t1", "t1")...),
		refusing(reports, apierrors.NewConflict(operatorsv1.Resource("operators"), "demo.t1", errors.New("changed"))))
	result, err := w.reconcile("t1")
	require.NoError(t, err)
	require.Equal(t, kit.SettleTime, result.RequeueAfter)
}

func TestChangesWakeTheAffectedNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(installed("demo", "t1", "t2")...), reconciled)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "demo"}}
	w.Get(role)
	made := w.operator("demo.t1")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo"}}
	w.Get(deployment)
	for _, row := range []struct {
		name          string
		before, after client.Object
		want          []string
		delay         time.Duration
	}{
		{"a new component", nil, role, []string{"t1"}, kit.SettleTime},
		{"a deleted component", role, nil, []string{"t1"}, kit.SettleTime},
		{"a component whose labels were removed", role, edited(role, func(o *rbacv1.Role) { o.Labels = nil }), []string{"t1"}, kit.SettleTime},
		{"a component whose labels name other namespaces", nil, edited(role, func(o *rbacv1.Role) {
			o.Labels["operators.coreos.com/x.v1"], o.Labels["operators.coreos.com/demo.v2"], o.Labels[names.LabelOwnerNamespace] = "", "", "v3"
		}), []string{"t1"}, kit.SettleTime},
		{"a component for which only the owner labels name the namespace", nil, edited(role, func(o *rbacv1.Role) {
			delete(o.Labels, "operators.coreos.com/demo.t1")
			o.Labels["operators.coreos.com/x.v1"] = ""
		}), []string{"t1"}, kit.SettleTime},
		{"a Deployment whose labels name other namespaces", nil, edited(deployment, func(o *appsv1.Deployment) {
			delete(o.Labels, "operators.coreos.com/demo.t1")
			o.Labels[names.LabelOwnerNamespace] = "v3"
		}), []string{"t1"}, kit.SettleTime},
		{"an unrelated change to a component", role, edited(role, func(o *rbacv1.Role) { o.Rules = []rbacv1.PolicyRule{{}} }), nil, 0},
		{"an object that Remit did not create", nil, edited(role, func(o *rbacv1.Role) { o.Name = "x" }), nil, kit.SettleTime},
		{"a condition", deployment, edited(deployment, func(o *appsv1.Deployment) {
			o.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Available", Status: "True"}}
		}), []string{"t1"}, kit.SettleTime},
		{"the package of a Subscription", subscription("t1", "a"), subscription("t1", "b"), []string{"t1"}, kit.SettleTime},
		{"a Namespace whose labels change", namespace("t1"), edited(namespace("t1"), func(o *corev1.Namespace) { o.Labels = map[string]string{"a": "b"} }), nil, 0},
		{"a new Namespace", nil, namespace("t9"), nil, 0},
		{"a Namespace that the cache receives after its Subscriptions", nil, namespace("t1"), []string{"t1"}, kit.SettleTime},
		{"a deleted Namespace", namespace("t1"), nil, []string{"t1"}, kit.SettleTime},
		{"an Operator when the program starts", nil, made, []string{"t1"}, kit.SettleTime},
		{"a status that this program wrote", edited(made, func(o *operatorsv1.Operator) { o.Status.Components = nil }), made, nil, 0},
		{"a status that another client wrote", made, edited(made, func(o *operatorsv1.Operator) { o.Status.Components = nil }), []string{"t1"}, correction},
		{"an Operator without a namespace in its name", nil, edited(made, func(o *operatorsv1.Operator) { o.Name = "x" }), nil, kit.SettleTime},
		{"an OperatorGroup whose manager changes", group, edited(group, func(o *operatorsv1.OperatorGroup) {
			o.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
		}), []string{"t1"}, kit.SettleTime},
		{"a deleted Operator", made, nil, []string{"t1"}, kit.SettleTime},
	} {
		got, delay := w.r.concerned(t.Context(), row.before, row.after)
		require.ElementsMatch(t, row.want, got, row.name)
		require.Equal(t, row.delay, delay, row.name)
	}
	require.Empty(t, w.r.written.Get("demo.t1"), "forgotten after the deletion")
}

// informers records the handlers of events.
type informers struct {
	cache.Informers
	cache.Informer
	handlers []toolscache.ResourceEventHandler
}

func (i *informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i, nil
}

func (i *informers) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return nil, nil
}

// delays records the delay of the last request.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	last time.Duration
}

func (d *delays) AddAfter(_ reconcile.Request, after time.Duration) { d.last = after }

func TestOnlyInstallsDelayOperators(t *testing.T) {
	w := newWorld(t)
	watched, queue := &informers{}, &delays{}
	require.NoError(t, w.r.events(watched).Start(t.Context(), queue))
	require.Len(t, watched.handlers, len(kinds()))
	for _, isFirst := range []bool{true, false} {
		for i := range 100 {
			watched.handlers[0].OnAdd(&operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("t", i)}}, isFirst)
		}
		require.Equal(t, isFirst, queue.last == kit.SettleTime, "%s", queue.last)
	}
	for _, obj := range []client.Object{subscription("t1", "a"), group} {
		watched.handlers[0].OnAdd(obj, false)
		require.Zero(t, queue.last, "an Operator exists when its plan is complete")
		watched.handlers[0].OnAdd(obj, true)
		require.Equal(t, kit.SettleTime, queue.last, "the Operator probably exists")
	}
	before := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: "demo.t1"}}
	watched.handlers[0].OnUpdate(before, edited(before, func(o *operatorsv1.Operator) { o.Status.Components = &operatorsv1.Components{} }))
	require.Equal(t, correction, queue.last, "another client wrote a status")
}

func edited[T client.Object](obj T, edit func(T)) client.Object {
	out, _ := obj.DeepCopyObject().(T)
	edit(out)
	return out
}

func TestOptionsAreRequired(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "required")
}
