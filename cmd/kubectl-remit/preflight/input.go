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

// Values of input.from.
const (
	// fromBundle means that the steps are built from a bundle's manifests.
	fromBundle = "bundle"
	// fromSteps means that the steps are built from the content of an InstallPlan.
	fromSteps = "steps"
	// fromReport means that the controller's report about an InstallPlan is used.
	fromReport = "report"
)

// input is the input of a check: the steps, and the identity whose permissions are compared with the needs of the steps.
type input struct {
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
	// examined are the objects that an upgrade may remove.
	examined examined
	// plan is set for an InstallPlan, with the origins of its pins.
	plan    *operatorsv1alpha1.InstallPlan
	origins []source.Origin
	// subscription is set if it determined the plan.
	subscription *operatorsv1alpha1.Subscription
	// install is set for a ClusterExtension.
	install *extension.Install
	// report is set if the controller has already reported the result.
	report *preflight.Report
}

// input returns the input of the check for the command's argument: a Subscription, an InstallPlan or a bundle.
func (o *Options) input(ctx context.Context, arg string) (*input, error) {
	kind, name, isObject := strings.Cut(arg, "/")
	if isObject {
		switch strings.ToLower(kind) {
		case "subscription", "subscriptions", "sub", "subs":
			return o.objectInput(ctx, &operatorsv1alpha1.Subscription{}, name)
		case "installplan", "installplans", "ip":
			return o.objectInput(ctx, &operatorsv1alpha1.InstallPlan{}, name)
		}
	}
	return o.bundleInput(ctx, arg)
}

func (o *Options) bundleInput(ctx context.Context, arg string) (*input, error) {
	if len(o.Bundles) > 0 {
		return nil, errors.New("--bundle can be used only with a Subscription or an InstallPlan")
	}
	b, err := o.Load(ctx, arg)
	if err != nil {
		return nil, err
	}
	i := &input{what: "ClusterServiceVersion " + b.CSV.Name, from: fromBundle, namespace: o.Namespace}
	if o.RBACDir == "" {
		if i.client, err = o.Cluster.Client(o.ErrOut); err != nil {
			return nil, err
		}
	}
	if err := o.findAccount(ctx, i.client, i); err != nil {
		return nil, err
	}
	if i.targets, err = o.TargetsOr(b, i.namespace, i.targets); err != nil {
		return nil, err
	}
	scope := build.Scope{Namespace: i.namespace, Package: b.Package, Targets: i.targets}
	steps, err := build.NewStepResourceFromBundle(b.Bundle, scope, build.Unchecked{})
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", arg, err)
	}
	i.setSteps(steps.Steps)
	return i, o.findPermissions(ctx, i.client, i)
}

func (i *input) setSteps(steps []step.Step) {
	for n := range steps {
		steps[n].Owner.Proofs = unverified{}
	}
	i.steps = steps
}

// unverified accepts every proof. Only Remit's programs have the keys that verify proofs, and this command writes
// nothing.
type unverified struct{}

func (unverified) Check(client.Object, string) error { return nil }

func (unverified) CheckSince(client.Object, string, time.Time) error { return nil }

func (unverified) Sign(*unstructured.Unstructured, string, *unstructured.Unstructured) error {
	return errors.New("this command creates nothing")
}

// findAccount sets the account to the one that --account names. Without --account, it uses the account and the targets of the
// namespace's OperatorGroup.
func (o *Options) findAccount(ctx context.Context, c client.Client, i *input) error {
	if o.Account != "" {
		account, err := source.ParseAccount(o.Account)
		i.identity = scoped.ServiceAccountIdentity(account)
		if i.namespace == "" {
			i.namespace = account.Namespace
		}
		return err
	}
	if c == nil {
		return errors.New("--account is required with --rbac-dir: the ServiceAccount whose permissions limit the install, as NAMESPACE/NAME")
	}
	if i.namespace == "" {
		var err error
		if i.namespace, err = o.Cluster.Namespace(); err != nil {
			return err
		}
	}
	lookup := scoped.Lookup{Reader: c}
	account, group, err := lookup.Account(ctx, i.namespace)
	if err != nil {
		return fmt.Errorf("find the account for namespace %q: %w; alternatively, specify an account with --account", i.namespace, err)
	}
	i.identity, i.group = account.Identity(), group.Name
	i.targets, err = lookup.Targets(ctx, group, grants.NamespaceFilter{Client: c})
	if err == nil && len(i.targets) == 0 {
		err = errors.New(scoped.NoTargets(group, account))
	}
	return err
}

func (o *Options) findPermissions(ctx context.Context, c client.Client, i *input) error {
	if o.RBACDir != "" {
		listers, err := grants.Folder(o.RBACDir)
		if err != nil {
			return err
		}
		i.permissions = grants.Listed(listers, i.identity)
		return nil
	}
	var err error
	i.permissions, err = grants.Cluster(ctx, c, i.identity, i.namespaces())
	return err
}

// namespaces returns the namespaces in which the identity needs permissions.
func (i *input) namespaces() []string {
	out := []string{i.namespace}
	for _, s := range i.steps {
		if namespace := s.Object.GetNamespace(); namespace != "" {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (i *input) evaluate(ctx context.Context) (*result, error) {
	if i.report != nil {
		report := *i.report
		report.Notes = append(report.Notes, i.originNotes()...)
		return &result{input: i, report: report}, nil
	}
	needs, err := i.needs(ctx)
	if err != nil {
		return nil, err
	}
	more, notes, err := i.successions(ctx)
	if err != nil {
		return nil, err
	}
	report := i.permissions.Report(ctx, append(needs, more...))
	report.Notes = slices.Concat(report.Notes, notes, i.examined.notes(), i.originNotes())
	if err := report.NoteLeftOut(i.steps); err != nil {
		return nil, err
	}
	if err := i.refuseUnserved(&report); err != nil {
		return nil, err
	}
	i.refuseReserved(ctx, &report)
	i.refuseMissing(ctx, &report)
	i.refuseUnmet(&report)
	report.DeferUntilServed()
	report.WarnAboutExistingRoles(i.permissions.RulesOf)
	return &result{input: i, report: report}, nil
}

// needs returns the permissions that the install requires, except those for replacing an installed version (see successions).
func (i *input) needs(ctx context.Context) ([]preflight.Need, error) {
	if i.install != nil {
		return i.extensionNeeds(ctx)
	}
	needs, err := preflight.NeedsOf(i.steps, i.permissions.RulesOf, func(s step.Step) bool { return execute.ServedByOther(i.live(ctx, s), s) })
	return append(needs, i.schemaNeeds(ctx)...), err
}

func (i *input) schemaNeeds(ctx context.Context) (needs []preflight.Need) {
	for _, s := range i.steps {
		needs = append(needs, preflight.SchemaNeeds(s, i.live(ctx, s))...)
	}
	return needs
}

// live returns the existing CustomResourceDefinition with the same name as the step's object. It returns nil if no
// cluster is used, if the step is of another kind, or if the CustomResourceDefinition does not exist or cannot be read.
func (i *input) live(ctx context.Context, s step.Step) *apiextensionsv1.CustomResourceDefinition {
	if i.client == nil || !s.IsCRD() {
		return nil
	}
	name := s.Object.GetName()
	if live, asked := i.crds[name]; asked {
		return live
	}
	live := &apiextensionsv1.CustomResourceDefinition{}
	if i.client.Get(ctx, client.ObjectKey{Name: name}, live) != nil {
		live = nil
	}
	if i.crds == nil {
		i.crds = map[string]*apiextensionsv1.CustomResourceDefinition{}
	}
	i.crds[name] = live
	return live
}

// refuseReserved, like the controllers, reports CustomResourceDefinitions that only the default account is allowed to
// write.
func (i *input) refuseReserved(ctx context.Context, report *preflight.Report) {
	written := slices.DeleteFunc(slices.Clone(i.steps), func(s step.Step) bool { return !s.IsCRD() || execute.IsServed(i.live(ctx, s), s) })
	if len(written) == 0 {
		return
	}
	var served execute.Served
	if i.client != nil {
		var err error
		if served, err = execute.ReadServed(ctx, i.client, written); err != nil {
			report.Notes = append(report.Notes, "cannot determine what else serves the API groups of the bundle's CustomResourceDefinitions: "+err.Error())
		}
	}
	for _, s := range written {
		if err := cmp.Or(execute.Reserved(s), served.Taken(s)); err != nil {
			report.Refuse(apply.Describe(s.Object), err)
		}
	}
}

// refuseUnserved, like the controllers, refuses objects of unserved kinds.
func (i *input) refuseUnserved(report *preflight.Report) error {
	if i.client == nil {
		return nil
	}
	unserved := kinds.NewUnserved(clock.RealClock{})
	isServed := func(gvk schema.GroupVersionKind) (bool, error) {
		if gvk == operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind) {
			return true, nil // Remit's own installation provides this CRD
		}
		return unserved.Serves(i.client.RESTMapper(), gvk, "")
	}
	if i.install != nil {
		return assess.RefuseUnserved(report, i.steps, i.install.Provider, isServed)
	}
	return report.RefuseUnserved(i.steps, isServed)
}
