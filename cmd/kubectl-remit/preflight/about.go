package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/extension"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// Values of about.from.
const (
	// fromBundle means that the steps are built from a bundle's manifests.
	fromBundle = "bundle"
	// fromSteps means that the steps are built from the content of an InstallPlan.
	fromSteps = "steps"
	// fromReport means that the controller's report about an InstallPlan is used.
	fromReport = "report"
)

// about is the input of a check: the steps, and the identity whose permissions are compared with the needs of the steps.
type about struct {
	what string
	// from is the source of the steps.
	from string
	// identity performs the install: an account, or the user of a ClusterExtension.
	identity  scoped.Identity
	namespace string
	// group is the name of the OperatorGroup that defines the targets, or "" if the targets have another source.
	group       string
	targets     []string
	steps       []step.Step
	permissions *grants.Permissions
	// client is nil if no cluster is used.
	client client.Client
	// crds caches the cluster's CustomResourceDefinitions that were read, by name.
	crds map[string]*apiextensionsv1.CustomResourceDefinition
	// install is set for a ClusterExtension.
	install *extension.Install
	// report is set if the controller has already reported the result.
	report *preflight.Report
}

// about returns the input of the check for the command's argument: a Subscription, an InstallPlan or a bundle.
func (o *Options) about(ctx context.Context, arg string) (*about, error) {
	kind, name, isObject := strings.Cut(arg, "/")
	if isObject {
		switch strings.ToLower(kind) {
		case "subscription", "subscriptions", "sub", "subs":
			return o.aboutObject(ctx, &operatorsv1alpha1.Subscription{}, name)
		case "installplan", "installplans", "ip":
			return o.aboutObject(ctx, &operatorsv1alpha1.InstallPlan{}, name)
		}
	}
	return o.aboutBundle(ctx, arg)
}

func (o *Options) aboutBundle(ctx context.Context, arg string) (*about, error) {
	b, err := o.Load(ctx, arg)
	if err != nil {
		return nil, err
	}
	a := &about{what: "ClusterServiceVersion " + b.CSV.Name, from: fromBundle, namespace: o.Namespace}
	if o.RBACDir == "" {
		if a.client, err = o.Cluster.Client(o.ErrOut); err != nil {
			return nil, err
		}
	}
	if err := o.findAccount(ctx, a.client, a); err != nil {
		return nil, err
	}
	if a.targets, err = o.TargetsOr(b, a.namespace, a.targets); err != nil {
		return nil, err
	}
	scope := build.Scope{Namespace: a.namespace, Package: b.Package, Targets: a.targets}
	steps, err := build.NewStepResourceFromBundle(b.Bundle, scope, build.Unchecked{})
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", arg, err)
	}
	a.setSteps(steps.Steps)
	return a, o.findPermissions(ctx, a.client, a)
}

func (a *about) setSteps(steps []step.Step) {
	for i := range steps {
		steps[i].Owner.Proofs = unverified{}
	}
	a.steps = steps
}

// unverified accepts every proof. Only Remit's programs have the keys that verify proofs, and this command writes
// nothing.
type unverified struct{}

func (unverified) Check(client.Object, string) error { return nil }

func (unverified) CheckSince(client.Object, string, time.Time) error { return nil }

func (unverified) Sign(*unstructured.Unstructured, string, *unstructured.Unstructured) error {
	return errors.New("this command creates nothing")
}

// findAccount sets the account to the one in --account. Without --account, it uses the account and the targets of the
// namespace's OperatorGroup.
func (o *Options) findAccount(ctx context.Context, c client.Client, a *about) error {
	if o.Account != "" {
		account, err := source.ParseAccount(o.Account)
		a.identity = scoped.ServiceAccountIdentity(account)
		if a.namespace == "" {
			a.namespace = account.Namespace
		}
		return err
	}
	if c == nil {
		return errors.New("--account is required with --rbac-dir: the ServiceAccount whose permissions limit the install, as NAMESPACE/NAME")
	}
	if a.namespace == "" {
		var err error
		if a.namespace, err = o.Cluster.Namespace(); err != nil {
			return err
		}
	}
	lookup := scoped.Lookup{Reader: c}
	account, group, err := lookup.Account(ctx, a.namespace)
	if err != nil {
		return fmt.Errorf("find the account for namespace %q: %w; alternatively, specify an account with --account", a.namespace, err)
	}
	a.identity, a.group = account.Identity(), group.Name
	a.targets, err = lookup.Targets(ctx, group, grants.NamespaceFilter{Client: c})
	if err == nil && len(a.targets) == 0 {
		err = errors.New(scoped.NoTargets(group, account))
	}
	return err
}

func (o *Options) findPermissions(ctx context.Context, c client.Client, a *about) error {
	if o.RBACDir != "" {
		listers, err := grants.Folder(o.RBACDir)
		if err != nil {
			return err
		}
		a.permissions = grants.Listed(listers, a.identity)
		return nil
	}
	var err error
	a.permissions, err = grants.Cluster(ctx, c, a.identity, a.namespaces())
	return err
}

// namespaces returns the namespaces in which the identity needs permissions.
func (a *about) namespaces() []string {
	out := []string{a.namespace}
	for _, s := range a.steps {
		if namespace := s.Object.GetNamespace(); namespace != "" {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a *about) evaluate(ctx context.Context) (*result, error) {
	if a.report != nil {
		return &result{about: a, report: *a.report}, nil
	}
	needs, err := a.needs(ctx)
	if err != nil {
		return nil, err
	}
	more, notes, err := a.successions(ctx)
	if err != nil {
		return nil, err
	}
	report := a.permissions.Report(ctx, append(needs, more...))
	report.Notes = append(report.Notes, notes...)
	if err := report.NoteLeftOut(a.steps); err != nil {
		return nil, err
	}
	if err := a.refuseUnserved(&report); err != nil {
		return nil, err
	}
	a.refuseReserved(ctx, &report)
	a.refuseMissing(ctx, &report)
	a.refuseUnmet(&report)
	report.DeferUntilServed()
	report.WarnAboutExistingRoles(a.permissions.RulesOf)
	return &result{about: a, report: report}, nil
}

// needs returns the permissions that the install requires, except those of a succession.
func (a *about) needs(ctx context.Context) ([]preflight.Need, error) {
	if a.install != nil {
		return a.extensionNeeds(ctx)
	}
	needs, err := preflight.NeedsOf(a.steps, a.permissions.RulesOf, func(s step.Step) bool { return execute.ServedByOther(a.live(ctx, s), s) })
	return append(needs, a.schemaNeeds(ctx)...), err
}

func (a *about) schemaNeeds(ctx context.Context) (needs []preflight.Need) {
	for _, s := range a.steps {
		needs = append(needs, preflight.SchemaNeeds(s, a.live(ctx, s))...)
	}
	return needs
}

// live returns the existing CustomResourceDefinition with the same name as the step's object. It returns nil if no
// cluster is used, if the step is of another kind, or if the CustomResourceDefinition does not exist or cannot be read.
func (a *about) live(ctx context.Context, s step.Step) *apiextensionsv1.CustomResourceDefinition {
	if a.client == nil || !s.IsCRD() {
		return nil
	}
	name := s.Object.GetName()
	if live, asked := a.crds[name]; asked {
		return live
	}
	live := &apiextensionsv1.CustomResourceDefinition{}
	if a.client.Get(ctx, client.ObjectKey{Name: name}, live) != nil {
		live = nil
	}
	if a.crds == nil {
		a.crds = map[string]*apiextensionsv1.CustomResourceDefinition{}
	}
	a.crds[name] = live
	return live
}

// refuseReserved, like the controllers, reports CustomResourceDefinitions that only the default account is allowed to
// write.
func (a *about) refuseReserved(ctx context.Context, report *preflight.Report) {
	written := slices.DeleteFunc(slices.Clone(a.steps), func(s step.Step) bool { return !s.IsCRD() || execute.IsServed(a.live(ctx, s), s) })
	if len(written) == 0 {
		return
	}
	var served execute.Served
	if a.client != nil {
		var err error
		if served, err = execute.ReadServed(ctx, a.client, written); err != nil {
			report.Notes = append(report.Notes, "Cannot determine what else serves the API groups of the bundle's CustomResourceDefinitions: "+err.Error())
		}
	}
	for _, s := range written {
		if err := cmp.Or(execute.Reserved(s), served.Taken(s)); err != nil {
			report.Refuse(apply.Describe(s.Object), err)
		}
	}
}

// refuseUnserved, like the controllers, refuses objects of unserved kinds.
func (a *about) refuseUnserved(report *preflight.Report) error {
	if a.client == nil {
		return nil
	}
	unserved := kinds.NewUnserved(clock.RealClock{})
	isServed := func(gvk schema.GroupVersionKind) (bool, error) {
		if gvk == operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind) {
			return true, nil // Remit's own installation provides this CRD
		}
		return unserved.Serves(a.client.RESTMapper(), gvk, "")
	}
	if a.install != nil {
		return assess.RefuseUnserved(report, a.steps, a.install.Provider, isServed)
	}
	return report.RefuseUnserved(a.steps, isServed)
}
