package grant

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/ensure"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/grants"
	"github.com/remit-olm/remit/cmd/kubectl-remit/preflight"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
)

// run prints what is missing, asks and creates it.
func (o *Options) run(ctx context.Context, check checker) error {
	printed, err := check(ctx)
	if err != nil {
		return err
	}
	if err := printed.Describe(o.ErrOut); err != nil {
		return err
	}
	if o.Format != cli.Text {
		return cmp.Or(o.Format.EncodeObjects(o.Out, printed.Objects), printed.Refused)
	}
	if len(printed.Objects) == 0 {
		return printed.Err
	}
	if err := o.checkConfirmed(printed); err != nil {
		return err
	}
	if err := o.confirm(ctx, printed.Objects); err != nil {
		return err
	}
	now, err := check(ctx)
	if err != nil {
		return err
	}
	if err := o.checkConfirmed(now); err != nil {
		return err
	}
	if !isSame(printed, now) {
		return errors.New("what is missing has changed since it was printed; nothing was written. Run the command again to see it")
	}
	return cmp.Or(o.create(ctx, now.Objects), now.Refused)
}

// checkConfirmed returns an error if a user must decide whether the content and the target namespaces are the wanted ones, and --yes
// is set.
func (o *Options) checkConfirmed(m *preflight.Missing) error {
	if o.Yes && m.Unconfirmed != nil {
		return fmt.Errorf("%w; nothing was written", m.Unconfirmed)
	}
	if flags := o.unnamed(m.Elsewhere); o.Yes && len(flags) > 0 {
		return fmt.Errorf("the OperatorGroup targets %d other namespaces in which permissions would be granted, and whoever may write it determines them; nothing was written. "+
			"If they are the wanted ones, add %s", len(flags), bundle.Named(flags))
	}
	return nil
}

// unnamed returns the flags that name those of the targets that --target does not name.
func (o *Options) unnamed(targets []string) (flags []string) {
	for _, target := range targets {
		if target == rbac.ClusterScope {
			target = AllNamespaces
		}
		if !slices.Contains(o.Targets, target) && !slices.Contains(o.Targets, AllNamespaces) {
			flags = append(flags, "--target "+apply.ShellWord(target))
		}
	}
	return flags
}

// isSame reports whether two checks had the same basis and result.
func isSame(a, b *preflight.Missing) bool {
	return a.Basis == b.Basis && equality.Semantic.DeepEqual(a.Objects, b.Objects)
}

// confirm prints the objects and asks whether to create them.
func (o *Options) confirm(ctx context.Context, objs []client.Object) error {
	if err := cli.YAML.EncodeObjects(o.Out, objs); err != nil {
		return err
	}
	if o.Yes {
		return nil
	}
	message.Fprintf(o.ErrOut, "Create these %d objects? [y/N] ", len(objs))
	answer := make(chan string, 1)
	go func() { // reading from a terminal cannot be canceled
		line, _ := bufio.NewReader(io.LimitReader(o.In, maxAnswer)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
	}
	return &cli.ExitError{Code: cli.CodeMissing, Err: errors.New("not confirmed; nothing was written")}
}

// maxAnswer is the maximum length of an answer, in bytes.
const maxAnswer = 64

// create creates the objects, unless one of them must not be created or changed.
func (o *Options) create(ctx context.Context, objs []client.Object) error {
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	changes, err := ensure.Gather(ctx, c, "grant", objs)
	if err == nil {
		err = checkUnbound(ctx, c, changes)
	}
	if err != nil {
		return err
	}
	done, err := ensure.Each(ctx, c, changes, ensure.Change.Make)
	for i, result := range done {
		message.Fprintln(o.Out, ensure.Resource(changes[i].Want), result)
	}
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("%w\nTo grant permissions, you must have them, or have the verbs escalate and bind on the roles", err)
	}
	return err
}

// checkUnbound returns an error if a subject other than the wanted one is bound to a role that does not exist yet, because this
// subject would receive the permissions, and if a binding would have to be changed. The policies remit-grant-bindings and
// remit-extension-grant-bindings prevent such bindings where they are installed, but not those that existed before.
func checkUnbound(ctx context.Context, c client.Client, changes []ensure.Change) error {
	var problems []error
	for i, x := range changes {
		kind := apply.KindOf(x.Want)
		switch {
		case !strings.HasSuffix(kind, "Binding") && x.Live == nil:
			others, err := othersBoundTo(ctx, c, x.Want, changes[i+1].Want) // each role precedes its binding
			if err != nil {
				return err
			}
			problems = append(problems, others...)
		case x.Live != nil && !x.Complete:
			problems = append(problems, fmt.Errorf("%s already exists without subjects and was not created by grant; nothing was written. Delete it first", apply.Describe(x.Want)))
		}
	}
	return errors.Join(problems...)
}

func othersBoundTo(ctx context.Context, c client.Client, role, binding client.Object) (problems []error, err error) {
	listers, err := grants.ReadBindings(ctx, c, role.GetNamespace())
	if err != nil {
		return nil, fmt.Errorf("determine who is bound to %s, which does not exist yet: %w; nothing was written", apply.Describe(role), err)
	}
	bound, err := listers.BindingsOf(rbac.RoleRefOf(binding), role.GetNamespace())
	if err != nil {
		return nil, err
	}
	wanted := ensure.Subjects(binding)
	for _, b := range bound {
		for _, s := range ensure.Subjects(b) {
			if !slices.Contains(wanted, s) {
				problems = append(problems, fmt.Errorf("%s %q in namespace %q binds %s, which does not exist yet, to %s, who would receive these permissions; nothing was written. Delete the binding first",
					apply.KindOf(b), b.GetName(), b.GetNamespace(), apply.Describe(role), s))
			}
		}
	}
	return problems, nil
}
