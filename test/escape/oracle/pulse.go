package oracle

import (
	"context"
	"fmt"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	// pulseNamespace is the namespace of the healthy installs.
	pulseNamespace = "healthy"
	// pulses is the number of operators in the catalog of the healthy installs. They are installed in turn.
	pulses = 300
	// patience is the timeout of a healthy install.
	patience = 60 * time.Second
	tick     = 20 * time.Millisecond
)

// pulse installs harmless operators one after the other, each from a different package than the previous one.
type pulse struct {
	client  client.WithWatch
	account types.NamespacedName
	next    int
}

func packageOf(n int) string { return fmt.Sprintf("healthy-%d", n) }

func newPulse(ctx context.Context, cluster *env.Cluster) (*pulse, error) {
	c := cluster.Client
	p := &pulse{client: c, account: types.NamespacedName{Namespace: pulseNamespace, Name: "acct"}}
	var bundles []*forge.Bundle
	for n := range pulses {
		name := packageOf(n)
		bundles = append(bundles, forge.Of(name, forge.NewCSV(name+".v1.0.0").Apart(name)))
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: pulseNamespace, Name: name} }
	all := []string{"*"}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pulseNamespace}},
		&corev1.ServiceAccount{ObjectMeta: meta("acct")},
		&rbacv1.Role{ObjectMeta: meta("acct"), Rules: []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}},
		&rbacv1.RoleBinding{ObjectMeta: meta("acct"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "acct"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: pulseNamespace, Name: "acct"}}},
		&operatorsv1.OperatorGroup{ObjectMeta: meta("og"),
			Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: []string{pulseNamespace}}},
		&corev1.ConfigMap{ObjectMeta: meta("catalog"), Data: map[string]string{"catalog.json": forge.Catalog(bundles...)}},
		&operatorsv1alpha1.CatalogSource{ObjectMeta: meta("catalog"),
			Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "catalog"}},
	}
	for _, obj := range append(objects, scoped.Enrollment(p.account, cluster.Home)...) {
		if err := c.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	return p, (<-p.start(ctx)).err
}

// beaten is the result of an install.
type beaten struct {
	took time.Duration
	err  error
}

// start begins an install and returns a channel for its result.
func (p *pulse) start(ctx context.Context) <-chan beaten {
	out := make(chan beaten, 1)
	name := packageOf(p.next % pulses)
	p.next++
	go func() {
		begun := time.Now()
		err := p.beat(ctx, name)
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
