package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step/build"
)

// maxNamespace is the maximum length of a namespace name.
const maxNamespace = 63

// bundles installs the newest version of every package in a directory, each into its own namespace with an account
// that has exactly the permissions that the bundle needs.
func (d *demo) bundles(ctx context.Context) error {
	dir, err := filepath.Abs(d.Bundles)
	if err != nil {
		return err
	}
	snapshot, err := fbc.LoadDirectory(ctx, os.DirFS(dir))
	if err != nil {
		return fmt.Errorf("directory %q: %w", d.Bundles, err)
	}
	if len(snapshot.Packages) == 0 {
		return fmt.Errorf("directory %q contains no bundles", d.Bundles)
	}
	if err := d.start(ctx, dir); err != nil {
		return err
	}
	for _, warning := range snapshot.Warnings {
		d.progress.quote("warning: " + warning)
	}
	var failed []string
	var last *tenant
	for _, name := range snapshot.PackageNames() {
		t, err := d.install(ctx, snapshot, snapshot.Packages[name])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.progress.quote(err.Error())
			if !d.WithCRDs && namesWellKnown(err.Error()) {
				d.progress.say("    To serve this kind, run the command again with --with-crds.")
			}
			failed = append(failed, name)
			continue
		}
		last = t
	}
	if last != nil {
		d.hints(last.namespace, "pods,deployments")
	}
	if len(failed) > 0 {
		return notInstalledError{fmt.Errorf("%d of %d packages are not installed: %s", len(failed), len(snapshot.Packages), strings.Join(failed, ", "))}
	}
	return nil
}

// notInstalledError reports packages that were not installed on a cluster that otherwise works. The cluster's objects
// show the reasons.
type notInstalledError struct{ error }

func (d *demo) install(ctx context.Context, snapshot *catalog.Snapshot, pkg *catalog.Package) (*tenant, error) {
	channel, newest := newestOf(pkg)
	t := &tenant{demo: d, namespace: namespaceOf(pkg.Name), pkg: pkg.Name, channel: channel, startingCSV: newest}
	what := fmt.Sprintf("Install %s from channel %q into namespace %q", newest, channel, t.namespace)
	return t, d.progress.step(what, func() error {
		content, err := snapshot.Reader.Content(ctx, pkg.Name, channel, newest)
		if err != nil {
			return err
		}
		b, err := bundle.ParseContent(ctx, content)
		if err != nil {
			return err
		}
		t.targets = targetsFor(b.CSV, t.namespace)
		required, err := preflight.Required(scoped.ServiceAccountIdentity(t.account()), b, build.Scope{Namespace: t.namespace, Package: pkg.Name, Targets: t.scope()})
		if err != nil {
			return err
		}
		for _, do := range []func(context.Context) error{
			t.prepare,
			func(ctx context.Context) error { return t.grant(ctx, required) },
			t.subscribe,
			func(ctx context.Context) error { return t.until(ctx, t.planComplete) },
			func(ctx context.Context) error { return t.until(ctx, t.installed) },
		} {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// newestOf returns the head of the package's default channel, or the highest version if the channel has no unique
// head.
func newestOf(pkg *catalog.Package) (channel, bundle string) {
	c := pkg.Channels[pkg.DefaultChannel]
	if c == nil {
		c = pkg.Channels[pkg.ChannelNames()[0]]
	}
	if head, err := c.Head(); err == nil {
		return c.Name, head.Name
	}
	var entries []catalog.Entry
	for _, e := range c.Entries {
		entries = append(entries, e)
	}
	newest := slices.MaxFunc(entries, func(a, b catalog.Entry) int {
		return cmp.Or(versionOf(pkg, a).Compare(versionOf(pkg, b)), strings.Compare(a.Name, b.Name))
	})
	return c.Name, newest.Name
}

func versionOf(pkg *catalog.Package, e catalog.Entry) semver.Version {
	b, ok := pkg.Bundles[e.Name]
	if !ok {
		return semver.Version{}
	}
	v, err := versions.ParseTolerant(b.Version)
	if err != nil {
		return semver.Version{}
	}
	return v
}

// targetsFor returns the given namespace if the CSV supports OwnNamespace. Otherwise it returns nil, which selects all
// namespaces.
func targetsFor(csv *operatorsv1alpha1.ClusterServiceVersion, namespace string) []string {
	for _, mode := range csv.Spec.InstallModes {
		if mode.Type == operatorsv1alpha1.InstallModeTypeOwnNamespace && mode.Supported {
			return []string{namespace}
		}
	}
	return nil
}

func (t *tenant) scope() []string {
	if len(t.targets) == 0 {
		return []string{""}
	}
	return t.targets
}

func namespaceOf(pkg string) string {
	name := "demo-" + pkg
	if len(name) > maxNamespace {
		name = strings.TrimRight(name[:maxNamespace], "-.")
	}
	return strings.ReplaceAll(name, ".", "-")
}
