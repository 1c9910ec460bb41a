package csv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// wakesIndex is the index of ClusterServiceVersions, except copies, by what an event of another object of their namespace names. Event
// handlers are shared by all namespaces, and must not compare each event with all ClusterServiceVersions of a namespace.
const wakesIndex = "remit.dev/wakes"

// Kinds of the keys of wakesIndex. manyNames is the key of a ClusterServiceVersion with more than maxNames names, which may concern any object.
const (
	byReplaces       = "replaces/"
	byOwner          = "owner/"
	byLineage        = "lineage/"
	byDeployment     = "deployment/"
	byService        = "service/"
	byServiceAccount = "serviceaccount/"
	byMutation       = "mutates"
	manyNames        = "many"

	// Objects of the cluster, whose events concern CSVs of all namespaces. byConfiguration is followed by the prefix of the names of webhook
	// configurations.
	byDefinition    = "definition/"
	byAPIService    = "apiservice/"
	byConfiguration = "configuration/"
	byNativeAPI     = "native"
	byRequiredAPI   = "required"
	manyDefinitions = "many/definitions"
)

const (
	// maxNames is the number of names of Deployments, Services and ServiceAccounts by which a ClusterServiceVersion is indexed.
	maxNames = 20
	// maxWoken is the number of ClusterServiceVersions that one event wakes because they may wait for its object. If users of the namespace
	// create more, some of these wait until something else changes.
	maxWoken = 500
)

// indexFields adds the indexes that this controller uses.
func indexFields(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(indexWakes(ctx, indexer), kit.IndexLineage(ctx, indexer), provided.Index(ctx, indexer))
}

func indexWakes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &operatorsv1alpha1.ClusterServiceVersion{}, wakesIndex, func(obj client.Object) []string {
		csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion)
		if !ok || isCopy(csv) {
			return nil
		}
		return slices.Concat(ownKeys(csv), nameKeys(csv), clusterKeys(csv))
	})
	if err != nil {
		return fmt.Errorf("index ClusterServiceVersions by what wakes them: %w", err)
	}
	return nil
}

// ownKeys returns the keys for what a CSV itself is.
func ownKeys(csv *operatorsv1alpha1.ClusterServiceVersion) []string {
	out := []string{byOwner + ownerutil.LabelValue(csv.Name), byLineage + directLineage(csv).ShortMark()}
	if mark := csv.Labels[names.LabelLineage]; mark != "" {
		out = append(out, byLineage+names.ShortMark(mark))
	}
	if older := csv.Spec.Replaces; isName(older) {
		out = append(out, byReplaces+older)
	}
	if mutates(csv) {
		out = append(out, byMutation)
	}
	return out
}

// mutates reports whether a CSV may have mutating webhooks. One with more than maxCompared webhooks counts as one that has.
func mutates(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	hooks := csv.Spec.WebhookDefinitions
	return len(hooks) > maxCompared || slices.ContainsFunc(hooks, func(d operatorsv1alpha1.WebhookDescription) bool {
		return d.Type == operatorsv1alpha1.MutatingAdmissionWebhook
	})
}

// nameKeys returns the keys for the objects that a CSV names. A CSV that is not valid can have tens of thousands of names.
func nameKeys(csv *operatorsv1alpha1.ClusterServiceVersion) []string {
	spec, apis := &csv.Spec.InstallStrategy.StrategySpec, csv.Spec.APIServiceDefinitions.Owned
	if max(len(spec.DeploymentSpecs), len(csv.Spec.WebhookDefinitions), len(apis), len(spec.Permissions), len(spec.ClusterPermissions)) > maxCompared {
		return []string{manyNames}
	}
	var out []string
	add := func(kind, name string) {
		if key := kind + name; len(out) <= maxNames && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	serves := func(deployment string) {
		if isName(deployment) {
			add(byService, cert.ServiceName(deployment))
		}
	}
	for _, d := range spec.DeploymentSpecs {
		if isName(d.Name) {
			add(byDeployment, d.Name)
		}
	}
	for _, d := range csv.Spec.WebhookDefinitions {
		serves(d.DeploymentName)
	}
	for _, d := range apis {
		serves(d.DeploymentName)
	}
	for _, p := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
		if isName(p.ServiceAccountName) {
			add(byServiceAccount, p.ServiceAccountName)
		}
	}
	if len(out) > maxNames {
		return []string{manyNames}
	}
	return out
}

// clusterKeys returns the keys for the objects of the cluster that a CSV names or may wait for. manyDefinitions is the key of a CSV that
// names more than maxCompared: events of all such objects are compared with it.
func clusterKeys(csv *operatorsv1alpha1.ClusterServiceVersion) []string {
	var out []string
	if len(csv.Spec.NativeAPIs) > 0 {
		out = append(out, byNativeAPI)
	}
	if len(csv.Spec.APIServiceDefinitions.Required) > 0 {
		out = append(out, byRequiredAPI)
	}
	if n, _ := countNamed(csv); n > maxCompared {
		return append(out, manyDefinitions)
	}
	for kind, name := range named(csv) {
		if isName(name) {
			out = append(out, kind+name)
		}
	}
	return out
}

// countNamed returns the number of objects of the cluster that a CSV names, and the length of the longest of the lists that name them.
func countNamed(csv *operatorsv1alpha1.ClusterServiceVersion) (n, longest int) {
	defs := &csv.Spec.CustomResourceDefinitions
	lists := []int{len(defs.Owned), len(defs.Required), len(csv.Spec.APIServiceDefinitions.Owned), len(csv.Spec.WebhookDefinitions)}
	for _, length := range lists {
		n += length
	}
	return n, slices.Max(lists)
}

// named returns the kinds, as in the keys, and names of the objects of the cluster that a CSV names.
func named(csv *operatorsv1alpha1.ClusterServiceVersion) iter.Seq2[string, string] {
	return func(yield func(kind, name string) bool) {
		defs := &csv.Spec.CustomResourceDefinitions
		for _, list := range [][]operatorsv1alpha1.CRDDescription{defs.Owned, defs.Required} {
			for i := range list {
				if !yield(byDefinition, list[i].Name) {
					return
				}
			}
		}
		for _, api := range csv.Spec.APIServiceDefinitions.Owned {
			if !yield(byAPIService, api.Version+"."+api.Group) {
				return
			}
		}
		for i := range csv.Spec.WebhookDefinitions {
			if !yield(byConfiguration, csv.Spec.WebhookDefinitions[i].GenerateName) {
				return
			}
		}
	}
}

// maxNamed is the number of names of each kind that are compared with those of a CSV. The cache contains only some of the names of one with
// more, which is woken by all objects.
const maxNamed = bundle.MaxOwned

// amongMany returns requests for the CSVs with manyDefinitions that name one of these objects of a kind, and for which match returns true.
// Strangers must not be able to wake all of them with any object.
func (r *Reconciler) amongMany(ctx context.Context, match func(*operatorsv1alpha1.ClusterServiceVersion) bool, kind string, names ...string) []reconcile.Request {
	of := sets.New(names...)
	return r.anywhere(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		if !match(csv) {
			return false
		}
		if _, longest := countNamed(csv); longest > maxNamed {
			return true
		}
		for k, name := range named(csv) {
			if k == kind && of.Has(name) {
				return true
			}
		}
		return false
	}, manyDefinitions)
}

// isName reports whether an object can have a name. An index must not contain a string of a megabyte.
func isName(name string) bool { return name != "" && len(name) <= validation.DNS1123SubdomainMaxLength }

// keyed returns requests for the CSVs of a namespace that have a key in wakesIndex and for which match returns true.
func (r *Reconciler) keyed(ctx context.Context, namespace, key string, match func(*operatorsv1alpha1.ClusterServiceVersion) bool, opts ...client.ListOption) []reconcile.Request {
	return r.matching(ctx, match, append(opts, client.InNamespace(namespace), client.MatchingFields{wakesIndex: key})...)
}

// anywhere returns requests for the CSVs of all namespaces that have one of the keys and for which match returns true.
func (r *Reconciler) anywhere(ctx context.Context, match func(*operatorsv1alpha1.ClusterServiceVersion) bool, keys ...string) (out []reconcile.Request) {
	for _, key := range keys {
		out = append(out, r.matching(ctx, match, client.MatchingFields{wakesIndex: key})...)
	}
	return out
}

// namedBy returns requests for the CSVs that name an object of their namespace, and for those with more names than are indexed.
func (r *Reconciler) namedBy(ctx context.Context, kind string, obj client.Object, match func(*operatorsv1alpha1.ClusterServiceVersion) bool) []reconcile.Request {
	return append(r.keyed(ctx, obj.GetNamespace(), kind+obj.GetName(), match, client.Limit(maxWoken)),
		r.keyed(ctx, obj.GetNamespace(), manyNames, match, client.Limit(maxWoken))...)
}
