package oracle

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	// pulseNamespace is the namespace of the healthy installs.
	pulseNamespace = "healthy"
	// pulses is the number of operators of each kind in the catalog of the healthy installs, which are installed one after the
	// other.
	pulses = 150
	// withPod is how often a healthy install has a Pod: the first, and then every eighth. The Pod is work for the control plane
	// and not for Remit's programs.
	withPod = 8
	// patience is the timeout of a healthy install.
	patience = 60 * time.Second
	tick     = 20 * time.Millisecond
)

// pulse installs harmless operators one after the other, each from a different package than the previous one.
type pulse struct {
	client  client.WithWatch
	account types.NamespacedName
	// next and nextExtension are the numbers of the next install and of the next ClusterExtension. nextBarrier is the number of
	// the next install of either kind without Pods.
	next, nextExtension, nextBarrier int
}

func packageOf(n int) string { return fmt.Sprintf("healthy-%d", n) }

// barrierOf returns the package of an operator whose Deployment has no Pods.
func barrierOf(n int) string { return fmt.Sprintf("barrier-%d", n) }

// extensionOf returns the name of a healthy ClusterExtension, which is also the name of its package.
func extensionOf(n int) string { return fmt.Sprintf("%s%d", healthyExtension, n) }

// healthyExtension is the beginning of the names of the oracle's ClusterExtensions.
const healthyExtension = "healthy-extension-"

// isHealthyExtension reports whether this is the name of one of the oracle's ClusterExtensions, with or without Pods.
func isHealthyExtension(name string) bool {
	for n := range pulses {
		if name == extensionOf(n) || name == barrierOf(n) {
			return true
		}
	}
	return false
}

// healthy returns harmless operators, each in its own package, whose Deployments have this number of Pods.
func healthy(nameOf func(int) string, replicas int64) []*forge.Bundle {
	var bundles []*forge.Bundle
	for n := range pulses {
		name := nameOf(n)
		bundles = append(bundles, forge.Of(name, forge.NewCSV(name+".v1.0.0").RenameObjects(name).Replicas(replicas)))
	}
	return bundles
}

// catalogOf returns a file-based catalog of operators with one Pod each, and of the operators without Pods.
func catalogOf(nameOf func(int) string) string {
	return forge.Catalog(slices.Concat(healthy(nameOf, 1), healthy(barrierOf, 0))...)
}

// HealthyExtensions returns the file-based catalog of the healthy ClusterExtensions.
func HealthyExtensions() string { return catalogOf(extensionOf) }

func newPulse(ctx context.Context, cluster *env.Cluster) (*pulse, error) {
	c := cluster.Client
	p := &pulse{client: c, account: types.NamespacedName{Namespace: pulseNamespace, Name: "acct"}}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: pulseNamespace, Name: name} }
	all := []string{"*"}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pulseNamespace}},
		&corev1.ServiceAccount{ObjectMeta: named("acct")},
		&rbacv1.Role{ObjectMeta: named("acct"), Rules: []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}},
		&rbacv1.RoleBinding{ObjectMeta: named("acct"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "acct"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: pulseNamespace, Name: "acct"}}},
		&operatorsv1.OperatorGroup{ObjectMeta: named("og"),
			Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: []string{pulseNamespace}}},
		&corev1.ConfigMap{ObjectMeta: named("catalog"), Data: map[string]string{"catalog.json": catalogOf(packageOf)}},
		&operatorsv1alpha1.CatalogSource{ObjectMeta: named("catalog"),
			Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "catalog"}},
	}
	for _, obj := range append(objects, scoped.Enrollment(p.account, cluster.Home)...) {
		if err := c.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	return p, (<-p.start(ctx)).err
}

// addExtensions prepares the healthy ClusterExtensions, and installs the first one.
func (p *pulse) addExtensions(ctx context.Context, cluster *env.Cluster, image string) error {
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: pulseNamespace}}
	catalog.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: image}}
	for _, obj := range append(scoped.ExtensionAccountEnrollment(p.account, cluster.Home), catalog) {
		if err := p.client.Create(ctx, obj); err != nil {
			return err
		}
	}
	return (<-p.startExtension(ctx)).err
}

// startExtension is like start, but installs a ClusterExtension.
func (p *pulse) startExtension(ctx context.Context) <-chan beaten {
	name := p.choose(p.nextExtension, extensionOf)
	p.nextExtension++
	return measured(func() error { return p.beatExtension(ctx, name) })
}

// beatExtension installs and removes a ClusterExtension.
func (p *pulse) beatExtension(ctx context.Context, name string) error {
	ext := env.NewClusterExtension(name, name)
	ext.Spec.Namespace, ext.Spec.ServiceAccount.Name = pulseNamespace, p.account.Name
	ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: pulseNamespace}}
	ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline,
		Inline: &apiextensionsv1.JSON{Raw: []byte(`{"watchNamespace":"` + pulseNamespace + `"}`)}}
	if err := p.client.Create(ctx, ext); err != nil {
		return fmt.Errorf("create ClusterExtension %s: %w", name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		err := p.client.Get(ctx, client.ObjectKeyFromObject(ext), ext)
		return err == nil && meta.IsStatusConditionTrue(ext.Status.Conditions, olmv1.TypeInstalled), err
	})
	if err != nil {
		return fmt.Errorf("ClusterExtension %s was not installed within %s (%+v): %w", name, patience, ext.Status.Conditions, err)
	}
	return client.IgnoreNotFound(p.client.Delete(ctx, ext))
}

// beaten is the result of an install.
type beaten struct {
	took time.Duration
	err  error
}

// start begins an install and returns a channel for its result.
func (p *pulse) start(ctx context.Context) <-chan beaten {
	name := p.choose(p.next, packageOf)
	p.next++
	return measured(func() error { return p.beat(ctx, name) })
}

// choose returns the package of the n-th healthy install of a kind. nameOf returns the packages of this kind with a Pod.
func (p *pulse) choose(n int, nameOf func(int) string) string {
	if n%withPod == 0 {
		return nameOf(n / withPod % pulses)
	}
	p.nextBarrier++
	return barrierOf(p.nextBarrier % pulses)
}

// barrier uses beat or beatExtension to install and remove an operator without Pods, which is much less work for the control
// plane.
func (p *pulse) barrier(ctx context.Context, install func(context.Context, string) error) error {
	p.nextBarrier++
	return install(ctx, barrierOf(p.nextBarrier%pulses))
}

// measured calls do in the background and returns a channel for its result.
func measured(do func() error) <-chan beaten {
	out := make(chan beaten, 1)
	go func() {
		begun := time.Now()
		err := do()
		out <- beaten{time.Since(begun), err}
	}()
	return out
}

// beat installs and removes an operator.
func (p *pulse) beat(ctx context.Context, name string) error {
	sub := &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: pulseNamespace, Name: name},
		Spec: &operatorsv1alpha1.SubscriptionSpec{CatalogSource: "catalog", CatalogSourceNamespace: pulseNamespace,
			Package: name, Channel: forge.Channel},
	}
	if err := p.client.Create(ctx, sub); err != nil {
		return fmt.Errorf("subscribe to %s: %w", name, err)
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: pulseNamespace, Name: name + ".v1.0.0"}}
	err := wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) { return p.succeeds(ctx, csv) })
	if err != nil {
		return fmt.Errorf("%s was not installed within %s (phase %q, %s): %w", name, patience, csv.Status.Phase, csv.Status.Message, err)
	}
	for _, obj := range []client.Object{sub, csv} {
		if err := p.client.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return nil
}

// succeeds watches an operator until it has succeeded. It returns false if the API server ends the watch before that. It
// stores the last state in csv.
func (p *pulse) succeeds(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) (bool, error) {
	changes, err := p.client.Watch(ctx, &operatorsv1alpha1.ClusterServiceVersionList{}, client.InNamespace(csv.Namespace),
		client.MatchingFields{metav1.ObjectNameField: csv.Name})
	if err != nil {
		return false, err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		now, ok := change.Object.(*operatorsv1alpha1.ClusterServiceVersion)
		if !ok {
			return false, apierrors.FromObject(change.Object)
		}
		now.DeepCopyInto(csv)
		if change.Type != watch.Deleted && csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded {
			return true, nil
		}
	}
	return false, nil
}
