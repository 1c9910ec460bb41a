package operatorgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// labelPrefix and the UID of an OperatorGroup form the label of its target namespaces.
const labelPrefix = "olm.operatorgroup.uid/"

// maxLabels is the maximum number of labels of OperatorGroups on a Namespace: Remit adds none to a Namespace that has more. Users
// can create and delete any number of OperatorGroups, and a Namespace that cannot grow can no longer be labeled or deleted.
const maxLabels = 100

// maxSwept is the maximum number of Namespaces from which one reconcile removes labels of OperatorGroups that do not exist.
const maxSwept = scoped.MaxTargets

// sweepPause is the minimum time between two such reconciles for one account, because each lists the OperatorGroups of the cluster.
const sweepPause = 10 * time.Second

// groupsPage is the number of OperatorGroups in one page, of which only metadata is read.
const groupsPage = 100

// labelIndex is the index of the Namespaces that have labels of OperatorGroups. Its only key is isLabeled.
const (
	labelIndex = "remit.dev/group-labels"
	isLabeled  = "true"
)

// Index adds the index of Namespaces to a manager's cache.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Namespace{}, labelIndex, func(obj client.Object) []string {
		for key := range obj.GetLabels() {
			if isGroupLabel(key) {
				return []string{isLabeled}
			}
		}
		return nil
	})
}

func isGroupLabel(key string) bool { return strings.HasPrefix(key, labelPrefix) }

// labelsOf returns the labels of OperatorGroups that a Namespace has, sorted.
func labelsOf(namespace *corev1.Namespace) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(namespace.Labels)), func(key string) bool { return !isGroupLabel(key) })
}

// labeled returns the cached Namespaces that have labels of OperatorGroups.
func (r *Reconciler) labeled(ctx context.Context) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{labelIndex: isLabeled}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	return list.Items, nil
}

// labelTasks returns the tasks that add the group's label to its target namespaces, and remove it from others. A group
// for all namespaces labels none. Whether a target exists is reported only if the account may label it. A group that selects
// its targets by such labels labels none, because each label could change which namespaces it selects.
func (r *Reconciler) labelTasks(ctx context.Context, f *Facts) ([]task, error) {
	if selectsLabels(f.Group) {
		return nil, nil
	}
	labeled, err := r.labeled(ctx)
	if err != nil {
		return nil, err
	}
	key := labelPrefix + string(f.Group.UID)
	var out []task
	has, full := map[string]bool{}, map[string]bool{}
	for i := range labeled {
		name, of := labeled[i].Name, labeled[i].Labels
		value, ok := of[key]
		has[name] = ok && value == ""
		full[name] = !ok && len(labelsOf(&labeled[i])) >= maxLabels
		if ok && !slices.Contains(f.Targets, name) && len(r.missingForLabel(f.Account, name)) == 0 {
			out = append(out, task{object: "Namespace " + name, do: removeLabels(name, key)})
		}
	}
	for _, name := range f.Targets {
		if name == scoped.AllNamespaces || has[name] {
			continue
		}
		t := task{object: "Namespace " + name, missing: r.missingForLabel(f.Account, name), do: r.addLabel(name, key, f.Group)}
		if full[name] {
			t.refused = fmt.Sprintf("it has %d labels %s*, and Remit adds no more", maxLabels, labelPrefix)
		}
		out = append(out, t)
	}
	return out, nil
}

// selectsLabels reports whether a group selects namespaces by the labels that groups add to them.
func selectsLabels(group *operatorsv1.OperatorGroup) bool {
	return len(group.Spec.TargetNamespaces) == 0 && group.Spec.Selector != nil && (slices.ContainsFunc(slices.Collect(maps.Keys(group.Spec.Selector.MatchLabels)), isGroupLabel) ||
		slices.ContainsFunc(group.Spec.Selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return isGroupLabel(r.Key) }))
}

func (r *Reconciler) missingForLabel(account scoped.Account, namespace string) []string {
	granted := r.RBAC.LowerBound(rbac.SubjectOf(account.Identity()), namespace)
	return lines(granted.Set().Missing([]rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{namespace}, Verbs: []string{"patch"},
	}}))
}

// addLabel returns a function that adds the label of a group that has not changed to a Namespace.
func (r *Reconciler) addLabel(namespace, key string, group *operatorsv1.OperatorGroup) func(context.Context, client.Client) error {
	return func(ctx context.Context, account client.Client) error {
		if err := r.checkCurrent(ctx, group); err != nil {
			return err
		}
		return patchLabels(ctx, account, namespace, map[string]any{key: ""})
	}
}

// removeLabels returns a function that removes labels from a Namespace.
func removeLabels(namespace string, keys ...string) func(context.Context, client.Client) error {
	return func(ctx context.Context, account client.Client) error {
		values := map[string]any{}
		for _, key := range keys {
			values[key] = nil
		}
		return patchLabels(ctx, account, namespace, values)
	}
}

// patchLabels sets labels of a Namespace, or removes those whose value is nil. It ignores namespaces that do not exist.
func patchLabels(ctx context.Context, account client.Client, namespace string, values map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": values}})
	if err != nil {
		return err
	}
	obj := &corev1.Namespace{}
	obj.Name = namespace
	return client.IgnoreNotFound(account.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldManager)))
}

// orphaned returns, by Namespace, the labels of OperatorGroups that the cache does not contain: they were deleted, or deleted and
// created again with the same name, also while this program did not run.
func (r *Reconciler) orphaned(ctx context.Context) (map[string][]string, error) {
	labeled, err := r.labeled(ctx)
	if err != nil || len(labeled) == 0 {
		return nil, err
	}
	groups := &operatorsv1.OperatorGroupList{}
	if err := r.Client.List(ctx, groups, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list OperatorGroups: %w", err)
	}
	exists := map[string]bool{}
	for i := range groups.Items {
		exists[labelPrefix+string(groups.Items[i].UID)] = true
	}
	out := map[string][]string{}
	for i := range labeled {
		keys := slices.DeleteFunc(labelsOf(&labeled[i]), func(key string) bool { return exists[key] })
		if len(keys) > 0 && labeled[i].DeletionTimestamp == nil {
			out[labeled[i].Name] = keys
		}
	}
	return out, nil
}

// sweep removes the labels of OperatorGroups that do not exist from the Namespaces that the account may patch. Any account may do this:
// the labels have no meaning, and whoever labeled the Namespaces may no longer exist. after is the time until more can be removed.
func (r *Reconciler) sweep(ctx context.Context, account scoped.Account, open func() (client.Client, error)) (after time.Duration, err error) {
	orphaned, err := r.orphaned(ctx)
	if err != nil {
		return 0, err
	}
	maps.DeleteFunc(orphaned, func(namespace string, _ []string) bool { return len(r.missingForLabel(account, namespace)) > 0 })
	if len(orphaned) == 0 {
		return 0, nil
	}
	now := r.Clock.Now()
	if left := r.swept.Get(account.Key()).Add(sweepPause).Sub(now); left > 0 {
		return left, nil
	}
	r.pauseSweeps(account, now)
	exists, err := r.liveLabels(ctx)
	if err != nil {
		return 0, err
	}
	own, err := open()
	if scoped.ReasonOf(err) != "" {
		return 0, nil // the status of the OperatorGroup, if there is one, describes this
	}
	if err != nil {
		return 0, err
	}
	return r.removeOrphaned(ctx, own, orphaned, exists)
}

// pauseSweeps records when an account was used, and forgets those whose pause is over.
func (r *Reconciler) pauseSweeps(account scoped.Account, now time.Time) {
	var over []client.ObjectKey
	r.swept.Each(func(key client.ObjectKey, used time.Time) {
		if now.Sub(used) >= sweepPause {
			over = append(over, key)
		}
	})
	for _, key := range over {
		r.swept.Delete(key)
	}
	r.swept.Set(account.Key(), now)
}

// removeOrphaned removes labels unless they exist, which means that their OperatorGroup does.
func (r *Reconciler) removeOrphaned(ctx context.Context, own client.Client, orphaned map[string][]string, exists map[string]bool) (after time.Duration, err error) {
	var failed []error
	for _, namespace := range slices.Sorted(maps.Keys(orphaned))[:min(len(orphaned), maxSwept)] {
		keys := slices.DeleteFunc(orphaned[namespace], func(key string) bool { return exists[key] })
		if len(keys) == 0 {
			continue
		}
		switch err := removeLabels(namespace, keys...)(ctx, own); {
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // by an admission policy; others are not affected
			log.FromContext(ctx).Info("Keeping labels of OperatorGroups that do not exist", "Namespace", namespace, "reason", err.Error())
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			failed = append(failed, fmt.Errorf("remove labels of Namespace %s: %w", namespace, err))
		default:
			log.FromContext(ctx).Info("Removed labels of OperatorGroups that do not exist", "Namespace", namespace, "labels", len(keys))
			after = cacheLag // a Namespace that had too many labels now has fewer, and others may have to follow
		}
	}
	return after, errors.Join(failed...)
}

// liveLabels returns the labels of all OperatorGroups according to the API server: the cache may not contain new ones yet.
func (r *Reconciler) liveLabels(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	for page := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(operatorsv1.GroupVersion.WithKind(operatorsv1.OperatorGroupKind + "List"))
		if err := r.Live.List(ctx, list, client.Limit(groupsPage), client.Continue(page)); err != nil {
			return nil, fmt.Errorf("list OperatorGroups: %w", err)
		}
		for i := range list.Items {
			out[labelPrefix+string(list.Items[i].UID)] = true
		}
		if page = list.Continue; page == "" {
			return out, nil
		}
	}
}
