package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

const (
	accountName = "installer"
	// patience is generous, to allow for a busy machine.
	patience = 5 * time.Minute
	tick     = 100 * time.Millisecond
	// nudge is the interval at which deletions are repeated, because the API server sometimes fails to clean up a
	// CustomResourceDefinition that was just established.
	nudge = 5 * time.Second
)

// world is the cluster that all cases share.
type world struct {
	*env.Cluster
	// cache avoids requests to the API server while waiting.
	cache cache.Cache
	// patience is the timeout of each wait in a case.
	patience time.Duration

	mu sync.Mutex
	// blocked maps namespaces to the message of the last plan or ClusterExtension that reported missing permissions.
	blocked map[string]string
	// groups contains the API groups of the CustomResourceDefinitions of all cases.
	groups map[string]bool
	// refs maps the names of bundles to the images of their catalogs, for ClusterExtensions.
	refs map[string]string
}

func image(p *published) string { return "catalogs.test/" + p.pkg + ":" + p.version }

// withoutDependencies returns a directory that contains a bundle without its declared dependencies, because a case installs one
// bundle with only the RBAC printed for it. Stand-ins replace the kinds that its CSV requires.
func withoutDependencies(t *testing.T, p *published) string {
	t.Helper()
	const dependencies = "metadata/dependencies.yaml"
	if _, err := os.Stat(filepath.Join(p.dir, dependencies)); err != nil {
		return p.dir
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(p.dir)))
	require.NoError(t, os.Remove(filepath.Join(dir, dependencies)))
	return dir
}

func newWorld(t *testing.T, all []*testCase) *world {
	t.Helper()
	catalogs := map[string]string{}
	groups := map[string]bool{}
	for _, c := range all {
		catalogs[image(c.published)] = withoutDependencies(t, c.published)
		for _, name := range c.crds() {
			groups[groupOf(name)] = true
		}
	}
	w := startWorld(t, env.Options{Catalogs: catalogs}, &operatorsv1alpha1.InstallPlan{})
	w.groups = groups
	return w
}

// startWorld starts a cluster and watches the objects of the type that reports missing permissions.
func startWorld(t *testing.T, o env.Options, reporting client.Object) *world {
	t.Helper()
	cluster, err := env.Start(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	labelNodes(t, cluster.Client)
	ctrllog.SetLogger(logr.Discard()) // silences the cache
	w := &world{Cluster: cluster, patience: patience, blocked: map[string]string{}}
	w.cache, err = cache.New(cluster.Config(), cache.Options{Scheme: cluster.Client.Scheme()})
	require.NoError(t, err)
	informer, err := w.cache.GetInformer(t.Context(), reporting)
	require.NoError(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    w.observe,
		UpdateFunc: func(_, obj any) { w.observe(obj) },
	})
	require.NoError(t, err)
	go func() { _ = w.cache.Start(t.Context()) }()
	require.True(t, w.cache.WaitForCacheSync(t.Context()))
	return w
}

// labelNodes labels the nodes with the control-plane role that some operators require.
func labelNodes(t *testing.T, c client.Client) {
	t.Helper()
	nodes := &corev1.NodeList{}
	require.NoError(t, c.List(t.Context(), nodes))
	require.NotEmpty(t, nodes.Items)
	for _, n := range nodes.Items {
		patch := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
		require.NoError(t, c.Patch(t.Context(), &n, client.RawPatch(types.MergePatchType, patch)))
	}
}

func (w *world) observe(obj any) {
	switch obj := obj.(type) {
	case *operatorsv1alpha1.InstallPlan:
		c := obj.Status.GetCondition(operatorsv1alpha1.InstallPlanConditionType(names.ConditionPermissionsMissing))
		if c.Status == corev1.ConditionTrue {
			w.block(obj.Namespace, c.Message)
		}
	case *olmv1.ClusterExtension:
		w.observeExtension(obj)
	}
}

func (w *world) block(namespace, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked[namespace] = message
}

// blockedIn returns the message of the namespace's last plan or ClusterExtension that reported missing permissions, or ""
// if there was none.
func (w *world) blockedIn(namespace string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.blocked[namespace]
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		switch err := decoder.Decode(&obj.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(obj.Object) > 0:
			out = append(out, obj)
		}
	}
}

// prepare creates, as the cluster administrator, the prerequisites of an install: the stand-ins, the namespaces, and
// the printed RBAC.
func (w *world) prepare(ctx context.Context, c *testCase, printed []*unstructured.Unstructured) error {
	for _, crd := range c.standIns() {
		if err := w.Client.Create(ctx, crd); err != nil {
			return err
		}
	}
	for _, class := range c.priorities() {
		if err := w.Client.Create(ctx, class); err != nil {
			return err
		}
	}
	for _, name := range c.targets {
		if name != c.namespace {
			if err := w.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				return err
			}
		}
	}
	for _, obj := range printed {
		if err := w.Client.Create(ctx, obj.DeepCopy()); err != nil {
			return fmt.Errorf("create %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	for _, crd := range c.standIns() {
		if err := w.established(ctx, crd.Name); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) established(ctx context.Context, name string) error {
	return w.until(ctx, func() error {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("stand-in %s is not established: %v", name, crd.Status.Conditions)
	})
}

// subscribe creates the objects that a user of the namespace creates to install the operator. If the operator was installed
// before, only the Subscription is missing.
func (w *world) subscribe(ctx context.Context, c *testCase) error {
	if c.extension {
		return w.extend(ctx, c)
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: c.namespace, Name: name} }
	for _, obj := range []client.Object{
		&operatorsv1.OperatorGroup{ObjectMeta: meta("group"),
			Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName, TargetNamespaces: c.targets}},
		&operatorsv1alpha1.CatalogSource{ObjectMeta: meta("catalog"),
			Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: image(c.published)}},
		&operatorsv1alpha1.Subscription{ObjectMeta: meta("subscription"), Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: "catalog", CatalogSourceNamespace: c.namespace, Package: c.pkg, StartingCSV: c.CSV.Name,
		}},
	} {
		if err := client.IgnoreAlreadyExists(w.Client.Create(ctx, obj)); err != nil {
			return err
		}
	}
	return nil
}

// succeeded returns nil if the operator is running and the Subscription reports that it is installed. If waiting cannot
// resolve an error, the error is final.
func (w *world) succeeded(ctx context.Context, c *testCase) error {
	if text := w.blockedIn(c.namespace); text != "" {
		return final{fmt.Errorf("the printed RBAC is not sufficient: %s", text)}
	}
	if c.extension {
		return w.extended(ctx, c)
	}
	sub := &operatorsv1alpha1.Subscription{}
	if err := w.cache.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "subscription"}, sub); err != nil {
		return err
	}
	if cond := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed); cond.Status == corev1.ConditionTrue {
		return fmt.Errorf("%s: %s", cond.Reason, cond.Message)
	}
	plans, err := w.plansComplete(ctx, c)
	if err != nil {
		return err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := w.cache.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: c.CSV.Name}, csv); err != nil {
		return err
	}
	if csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded && sub.Status.State == operatorsv1alpha1.SubscriptionStateAtLatest &&
		sub.Status.InstalledCSV == c.CSV.Name && plans == 1 {
		return nil
	}
	return fmt.Errorf("ClusterServiceVersion is %s, %s: %s%s", csv.Status.Phase, csv.Status.Reason, csv.Status.Message, unmet(csv))
}

// plansComplete returns the number of InstallPlans, all of which are complete. The error is final if one has failed.
func (w *world) plansComplete(ctx context.Context, c *testCase) (int, error) {
	plans := &operatorsv1alpha1.InstallPlanList{}
	if err := w.cache.List(ctx, plans, client.InNamespace(c.namespace)); err != nil {
		return 0, err
	}
	for i := range plans.Items {
		if p := &plans.Items[i]; p.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed {
			return 0, final{fmt.Errorf("InstallPlan failed: %s", p.Status.Message)}
		} else if p.Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete {
			return 0, fmt.Errorf("InstallPlan is %s: %s", p.Status.Phase, p.Status.Message)
		}
	}
	return len(plans.Items), nil
}

func unmet(csv *operatorsv1alpha1.ClusterServiceVersion) string {
	var out strings.Builder
	for _, r := range csv.Status.RequirementStatus {
		if r.Status != operatorsv1alpha1.RequirementStatusReasonPresent {
			fmt.Fprintf(&out, "; %s %s: %s", r.Kind, r.Name, r.Message)
		}
	}
	return out.String()
}

// final is an error that waiting cannot resolve.
type final struct{ error }

// until waits until look returns no error. It returns early if look returns a final error. On a timeout, it returns
// look's last error.
func (w *world) until(ctx context.Context, look func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, tick, w.patience, true, func(context.Context) (bool, error) {
		last = look()
		var f final
		if errors.As(last, &f) {
			return false, f.error
		}
		return last == nil, nil
	})
	if wait.Interrupted(err) && last != nil {
		return fmt.Errorf("after %s: %w", w.patience, last)
	}
	return err
}

// deleteInstall deletes the objects that the namespace's users would delete, and waits for the ClusterServiceVersion.
func (w *world) deleteInstall(ctx context.Context, c *testCase) error {
	if c.extension {
		return w.Client.Delete(ctx, c.clusterExtension())
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.CSV.Name}}
	for _, obj := range []client.Object{
		&operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "subscription"}}, csv,
	} {
		if err := w.Client.Delete(ctx, obj); err != nil {
			return err
		}
	}
	return w.waitDeleted(ctx, csv)
}

// force deletes, as the administrator, the objects that a failed case left behind.
func (w *world) force(ctx context.Context, c *testCase, outside []client.Object) {
	_ = w.deleteInstall(ctx, c)
	for _, obj := range outside {
		_ = w.Client.Delete(ctx, obj)
	}
}

func (w *world) waitDeleted(ctx context.Context, objs ...client.Object) error {
	return w.until(ctx, func() error {
		for _, obj := range objs {
			got := &metav1.PartialObjectMetadata{}
			got.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
			if got.Kind == "" {
				got.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
			}
			err := w.Client.Get(ctx, client.ObjectKeyFromObject(obj), got)
			if err == nil {
				return fmt.Errorf("%s %s still exists", got.Kind, client.ObjectKeyFromObject(obj))
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// clear deletes the objects that uninstall does not delete, except namespaces: deleting namespaces costs the API server more
// than everything else, and their content does not affect other cases.
func (w *world) clear(ctx context.Context, c *testCase, printed []*unstructured.Unstructured) error {
	var errs []error
	remove := func(obj client.Object) {
		errs = append(errs, client.IgnoreNotFound(w.Client.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground))))
	}
	if c.extension {
		ext := c.clusterExtension()
		remove(ext)
		ext.SetGroupVersionKind(olmv1.GroupVersion.WithKind(olmv1.KindClusterExtension))
		errs = append(errs, w.waitDeleted(ctx, ext))
		remove(c.clusterCatalog(""))
	}
	remove(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "group"}})
	errs = append(errs, w.until(ctx, func() error {
		return errors.Join(w.withoutGroupRoles(ctx, c), w.withoutGroupLabels(ctx, c))
	}))
	remove(&operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "catalog"}})
	for _, obj := range printed {
		if obj.GetKind() != "Namespace" {
			remove(obj.DeepCopy())
		}
	}
	for _, class := range c.priorities() {
		remove(class)
	}
	var left []client.Object
	for _, name := range c.crds() {
		crd := &apiextensionsv1.CustomResourceDefinition{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}
		left = append(left, crd.DeepCopy())
		remove(crd)
	}
	return errors.Join(append(errs, w.nudged(ctx, left...))...)
}

// withoutGroupRoles returns an error while ClusterRoles of the case's OperatorGroup exist. Remit deletes them as the account, so
// the account must exist until then.
func (w *world) withoutGroupRoles(ctx context.Context, c *testCase) error {
	roles := &rbacv1.ClusterRoleList{}
	owned := client.MatchingLabels{names.LabelOwnerKind: operatorsv1.OperatorGroupKind, names.LabelOwnerNamespace: c.namespace}
	if err := w.Client.List(ctx, roles, owned); err != nil || len(roles.Items) == 0 {
		return err
	}
	return fmt.Errorf("ClusterRole %s of a deleted OperatorGroup still exists", roles.Items[0].Name)
}

// withoutGroupLabels returns an error while namespaces of the case have the label of its OperatorGroup, which Remit also removes
// as the account.
func (w *world) withoutGroupLabels(ctx context.Context, c *testCase) error {
	for _, name := range c.namespaces() {
		ns := &corev1.Namespace{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, ns); client.IgnoreNotFound(err) != nil {
			return err
		}
		for label := range ns.Labels {
			if strings.HasPrefix(label, "olm.operatorgroup.uid/") {
				return fmt.Errorf("namespace %s still has the label %s of a deleted OperatorGroup", name, label)
			}
		}
	}
	return nil
}

// nudged waits until the objects are deleted, and repeats the delete requests periodically. It returns only after the
// last request has completed, because a request that is still in flight could delete an object that another case has
// created under the same name.
func (w *world) nudged(ctx context.Context, objs ...client.Object) error {
	repeat, stop := context.WithCancel(ctx)
	var repeating sync.WaitGroup
	repeating.Go(func() {
		wait.UntilWithContext(repeat, func(context.Context) {
			for _, obj := range objs {
				// Do not pass the context repeat: the API server could process a canceled request later.
				_ = w.Client.Delete(ctx, obj)
			}
		}, nudge)
	})
	err := w.waitDeleted(ctx, objs...)
	stop()
	repeating.Wait()
	return err
}
