package extension

import (
	"context"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// Install describes what a ClusterExtension installs.
type Install struct {
	Extension *olmv1.ClusterExtension
	Identity  scoped.Identity
	// Version is the version of the bundle according to the catalog.
	Version string
	Bundle  *bundle.Bundle
	// Rendered and Steps are the objects of the install. Render sets them.
	Rendered *render.Rendered
	Steps    []step.Step
	// Unmet describes the requirements of the bundle that the cluster does not meet. Nothing is installed until they are met.
	Unmet []string
	// Notes are remarks for the user.
	Notes []string

	// Provider issues the certificates of webhooks and APIs.
	Provider serving.Provider

	spared []string
	scopes webhook.Scopes
}

// Source contains what Load reads from.
type Source struct {
	// Cluster is nil if no cluster is used.
	Cluster *cli.Cluster
	In      io.Reader
	ErrOut  io.Writer
}

// Load resolves the bundle of the ClusterExtension that the flags and the name select, and renders its objects for an identity
// without permissions.
func (f *Flags) Load(ctx context.Context, name string, from Source) (*Install, error) {
	var c client.Client
	if from.Cluster != nil {
		var err error
		if c, err = from.Cluster.Client(from.ErrOut); err != nil {
			return nil, err
		}
	}
	ext, err := f.object(ctx, c, from.In, name)
	if err != nil {
		return nil, err
	}
	request, err := assess.Request(ext)
	if err != nil {
		return nil, fmt.Errorf("ClusterExtension %s: %w", ext.Name, err)
	}
	out := &Install{Extension: ext, Identity: assess.Identity(ext), Provider: f.Provider, spared: []string{f.RemitNamespace}, scopes: webhook.Builtin}
	if c != nil {
		out.scopes = webhook.Discovered(c.RESTMapper())
	}
	offered, end, err := f.catalogs(ctx, c, from, request, out)
	defer end()
	if err != nil {
		return nil, err
	}
	if f.Catalog != "" {
		request.Selector = nil // the catalog has no labels
	}
	resolved, err := resolve.Resolve(offered.catalogs, request)
	if err != nil {
		return nil, fmt.Errorf("ClusterExtension %s: %w", ext.Name, err)
	}
	if resolved.Bundle == nil {
		return nil, fmt.Errorf("ClusterExtension %s: %s", ext.Name, resolved.Kept)
	}
	if out.Bundle, err = f.read(ctx, resolved); err != nil {
		return nil, fmt.Errorf("bundle %q, version %s: %w", resolved.Bundle.Name, resolved.Bundle.Version, err)
	}
	out.Version, offered.bundle = resolved.Bundle.Version, resolved.Bundle
	if err := out.Render(func(rbacv1.PolicyRule) bool { return false }); err != nil {
		return nil, err
	}
	return out, out.findUnmet(ctx, c, from, offered)
}

// catalogs returns the catalogs to resolve from. The caller must call end to release them.
func (f *Flags) catalogs(ctx context.Context, c client.Client, from Source, request resolve.Request, out *Install) (offered offer, end func(), err error) {
	end = func() {}
	if f.Catalog == "" {
		api, err := from.Cluster.Raw(from.ErrOut)
		if err != nil {
			return offered, end, err
		}
		offered.rest = &clusterCatalogs{Reader: c, api: api, remitNamespace: f.RemitNamespace}
		offered.catalogs, err = offered.rest.read(ctx, request)
		return offered, end, err
	}
	snap, end, err := f.catalogOf(ctx)
	if err != nil {
		return offered, end, err
	}
	snap.Key.Name = f.Catalog
	for _, warning := range snap.Warnings {
		out.Notes = append(out.Notes, "catalog "+f.Catalog+": "+warning)
	}
	offered.catalogs = []resolve.Catalog{{Name: f.Catalog, Snapshot: snap}}
	return offered, end, nil
}

// read reads the bundle from the catalog or, if the catalog does not contain its manifests, from its image.
func (f *Flags) read(ctx context.Context, from resolve.Result) (*bundle.Bundle, error) {
	content, err := from.Snapshot.Reader.Content(ctx, from.Package.Name, from.Channel, from.Bundle.Name)
	var parsed *bundle.Bundle
	switch {
	case errors.Is(err, catalog.ErrNoContent):
		loaded, err := (&source.Flags{PlainHTTP: f.PlainHTTP}).LoadImage(ctx, from.Bundle.Image)
		if err != nil {
			return nil, err
		}
		parsed = loaded.Bundle
	case err != nil:
		return nil, err
	default:
		if parsed, err = bundle.ParseContent(ctx, content); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

// Render renders the objects. holds reports whether the identity has a cluster-wide permission.
func (i *Install) Render(holds func(rbacv1.PolicyRule) bool) error {
	config, err := assess.Config(i.Extension)
	if err != nil {
		return fmt.Errorf("ClusterExtension %s: %w", i.Extension.Name, err)
	}
	owner := assess.Owner(i.Extension, i.Bundle.CSV.Name)
	i.Rendered, err = render.Render(render.Input{
		Bundle: i.Bundle, Owner: owner, Config: config, Tool: i.Provider.Tool(owner.Namespace), Spared: i.spared, Scopes: i.scopes, Holds: holds,
	})
	if err != nil {
		return fmt.Errorf("ClusterExtension %s: %w", i.Extension.Name, err)
	}
	i.Steps = assess.Steps(i.Rendered, owner)
	return nil
}

// String describes the install for messages.
func (i *Install) String() string {
	return fmt.Sprintf("ClusterExtension %s (bundle %q, version %s)", i.Extension.Name, i.Bundle.CSV.Name, i.Version)
}

// Needs returns all permissions that the install requires.
func (i *Install) Needs(rulesOf rbac.RoleRules) ([]preflight.Need, error) {
	return assess.Needs(i.Rendered, i.Steps, rulesOf)
}

// Removals returns the permissions that are required to remove objects of the installed version: those of the inventory that exist and
// belong to the extension, according to owned. CustomResourceDefinitions are kept.
func (i *Install) Removals(mapper meta.RESTMapper, owned func(*unstructured.Unstructured, ownerutil.Lineage) bool) ([]preflight.Need, error) {
	wanted := map[string]bool{}
	for _, s := range i.Steps {
		wanted[keyOf(s.Object)] = true
	}
	var out []preflight.Need
	lineage := assess.Owner(i.Extension, i.Bundle.CSV.Name).Lineage
	for _, o := range i.Extension.Status.Inventory {
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: o.Group, Kind: o.Kind})
		if meta.IsNoMatchError(err) {
			continue // no longer served
		}
		if err != nil {
			return nil, fmt.Errorf("discover %s: %w", o.Kind, err)
		}
		obj := apply.Reference(mapping.GroupVersionKind, o.Namespace, o.Name)
		if (step.Step{Object: obj}).IsCRD() || wanted[keyOf(obj)] || !owned(obj, lineage) {
			continue
		}
		out = append(out, assess.Removal(obj, i.Version))
	}
	return out, nil
}

// keyOf identifies an object regardless of its version.
func keyOf(obj *unstructured.Unstructured) string {
	return obj.GroupVersionKind().GroupKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// Enrollment returns the RBAC that allows Remit to act as the identity. how is the form for a synthetic user.
func (i *Install) Enrollment(remitNamespace string, how scoped.Impersonation) []client.Object {
	if i.Identity.IsSynthetic() {
		return scoped.ExtensionEnrollment(i.Identity, remitNamespace, how)
	}
	return scoped.ExtensionAccountEnrollment(i.Identity.Account.Key(), remitNamespace)
}

// Impersonation returns the form of impersonation that the API server supports, according to its version. Without a cluster, it
// is the constrained form, and note describes what this form requires.
func (i *Install) Impersonation(cluster *cli.Cluster, errOut io.Writer) (how scoped.Impersonation, note string, err error) {
	if !i.Identity.IsSynthetic() {
		return scoped.ImpersonationConstrained, "", nil
	}
	if cluster == nil {
		return scoped.ImpersonationConstrained, "the enrollment requires Kubernetes 1.36; for an older API server, use the one that " +
			"kubectl remit enroll clusterextension --impersonation=legacy creates", nil
	}
	version, err := cluster.ServerVersion(errOut)
	return scoped.ImpersonationFor(version), "", err
}
