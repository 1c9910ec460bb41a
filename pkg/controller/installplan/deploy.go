package installplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
)

// errDeferred means that writing a CSV's Deployments is left to the csv controller.
var errDeferred = errors.New("deferred to the csv controller")

// deploy speeds up an install: as its last action, a plan writes the Deployments of its CSVs if the csv controller
// would write them immediately. It renders them as the csv controller does, so that the csv controller finds them up to
// date and needs no token for the account. deploy never fails and is not a step of the plan, because the csv controller
// detects and reports all obstacles.
func deploy(ctx context.Context, s *run) (outcome, error) {
	for i, st := range s.steps {
		if !st.IsCSV() {
			continue
		}
		if err := s.deployOne(ctx, st.Owner, s.done[i].Live); err != nil {
			log.FromContext(ctx).Info("Deferring the Deployments to the csv controller", "ClusterServiceVersion", st.Owner.CSV, "reason", err.Error())
		}
	}
	return proceed(), nil
}

func (s *run) deployOne(ctx context.Context, owner ownerutil.Owner, live *unstructured.Unstructured) error {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := apply.Decode(live, csv); err != nil {
		return err
	}
	if err := s.checkDeployable(ctx, csv, owner); err != nil {
		return err
	}
	owner.UID = csv.UID
	wanted, err := s.render(ctx, csv, owner)
	if err != nil {
		return err
	}
	objects := make([]*unstructured.Unstructured, len(wanted))
	for i, d := range wanted {
		if objects[i], err = apply.Object(d); err != nil {
			return err
		}
		if _, known := s.deployments[apply.Describe(objects[i])]; !known {
			return fmt.Errorf("%w: %s was not tried", errDeferred, apply.Describe(objects[i]))
		}
	}
	for _, obj := range objects {
		if err := cmp.Or(s.checkTurn(), s.sameAccount(ctx)); err != nil {
			return err
		}
		live := s.deployments[apply.Describe(obj)]
		result, _, err := apply.From(ctx, s.executor.Account, live, obj, owner)
		if err != nil {
			return err
		}
		if result != apply.Unchanged {
			log.FromContext(ctx).Info("Applied", "object", apply.Describe(obj), "account", s.account.Key().String())
		}
	}
	return nil
}

// checkDeployable returns an error if a CSV's Deployments cannot be written immediately. It does not check the CSV's
// ServiceAccounts and roles, which the plan has just written.
func (s *run) checkDeployable(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) error {
	untouched := csv.Status.Phase == operatorsv1alpha1.CSVPhaseNone || csv.Status.Phase == operatorsv1alpha1.CSVPhasePending
	if !untouched || csv.DeletionTimestamp != nil {
		return fmt.Errorf("%w: the ClusterServiceVersion is in phase %q or is being deleted", errDeferred, csv.Status.Phase)
	}
	if len(csv.Spec.WebhookDefinitions)+len(csv.Spec.APIServiceDefinitions.Owned) > 0 {
		return fmt.Errorf("%w: the ClusterServiceVersion has webhooks or APIServices", errDeferred)
	}
	if err := s.checkReplacesNone(ctx, csv); err != nil {
		return err
	}
	modes, err := operatorsv1alpha1.NewInstallModeSet(csv.Spec.InstallModes)
	if err == nil {
		err = modes.Supports(csv.Namespace, s.targets)
	}
	if err != nil {
		return err
	}
	r := s.reconciler
	if err := s.checkProvided(ctx, csv, owner); err != nil {
		return err
	}
	all, err := requirement.World{Reader: r.Client, Mapper: r.Client.RESTMapper(), ServerVersion: r.ServerVersion, Unserved: r.unserved}.Of(ctx, csv)
	if err != nil {
		return err
	}
	if !requirement.Met(all) {
		return fmt.Errorf("%w: the ClusterServiceVersion has requirements that are not met", errDeferred)
	}
	if err := bundle.ValidateCSV(csv); err != nil {
		return err
	}
	return deployment.CheckIdentities(csv, s.bound(ctx, owner, s.createdAt))
}

// bound returns what bounds the ServiceAccounts of an install. made is described at deployment.Bound.
func (s *run) bound(ctx context.Context, owner ownerutil.Owner, made func(string) (time.Time, bool)) deployment.Bound {
	r := s.reconciler
	return deployment.Bound{
		Account: s.account.Identity(), Made: made, Owner: owner, RBAC: r.RBAC, Log: log.FromContext(ctx), Program: names.UserAgentCatalog,
		Confirm: func(found []excess.Object) ([]excess.Object, error) {
			asker := s.key().String() + " run as"
			defer r.confirmer.ForgetAll(asker) // a plan asks once
			return r.confirmer.Exceeding(ctx, asker, s.account.Identity(), found)
		},
	}
}

// checkProvided returns an error if the CSV must not provide its APIs: because of the static APIs of its OperatorGroup, or
// because an operator of another OperatorGroup provides them.
func (s *run) checkProvided(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) error {
	listed := s.group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotationKey]
	if s.group.Spec.StaticProvidedAPIs && !provided.Allows(listed, provided.Of(csv)) {
		return fmt.Errorf("%w: the static APIs of the OperatorGroup do not include those of the ClusterServiceVersion", errDeferred)
	}
	r := s.reconciler
	listers := r.RBAC.Untracked()
	rival, err := provided.Conflicts{
		Reader: r.Client, RBAC: listers, Proofs: r.Proofs, Groups: r.Default.Lookup(r.Client),
		Filter: preflight.NamespaceFilter{RBAC: listers, Ask: preflight.Reviews(r.Client)},
	}.Rival(ctx, csv, owner, s.targets)
	if rival != "" || err != nil {
		return errors.Join(fmt.Errorf("%w: another OperatorGroup may provide the APIs of the ClusterServiceVersion", errDeferred), err)
	}
	return nil
}

// createdAt returns the creation time of a ServiceAccount that this run created or found to be part of the install. For
// other ServiceAccounts, it returns false.
func (s *run) createdAt(serviceAccount string) (time.Time, bool) {
	for i := range s.done {
		obj := s.steps[i].Object
		if obj.GetKind() == "ServiceAccount" && obj.GetNamespace() == s.plan.Namespace && obj.GetName() == serviceAccount {
			live := s.done[i].Live
			return live.GetCreationTimestamp().Time, !s.steps[i].Owner.Shares(live)
		}
	}
	return time.Time{}, false
}

// checkReplacesNone returns an error if an older version has to be replaced first.
func (s *run) checkReplacesNone(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) error {
	if csv.Spec.Replaces == "" {
		return nil
	}
	older := &operatorsv1alpha1.ClusterServiceVersion{}
	err := s.reconciler.Client.Get(ctx, client.ObjectKey{Namespace: csv.Namespace, Name: csv.Spec.Replaces}, older)
	if err == nil {
		return fmt.Errorf("%w: the ClusterServiceVersion replaces %q", errDeferred, older.Name)
	}
	return client.IgnoreNotFound(err)
}
