package execute

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// creator returns the client that creates the object of a step.
func (e *Executor) creator(s step.Step) client.Client {
	if s.IsCRD() && (e.IsDefault || !Approved(s)) {
		return e.CRDs
	}
	return e.Account
}

// writer returns the client that writes the object of a step.
func (e *Executor) writer(s State) client.Client {
	if s.ByAccount {
		return e.Account
	}
	return e.creator(s.Step)
}

// Reader returns the client that reads the custom resources of a CustomResourceDefinition: the one that creates the
// definition, regardless of who may change it.
func (e *Executor) Reader(s step.Step) client.Client { return e.creator(s) }

// Alters reports whether a step changes the spec of an existing CustomResourceDefinition, and thereby objects that others
// have created. Labels and annotations do not count. If the specs differ, Alters asks the API server in a dry run what
// applying the step would change, because it adds defaults.
func (e *Executor) Alters(ctx context.Context, s State) bool {
	if restoresConversion(s) {
		return true
	}
	desired := e.owned(s.Step)
	keepConversion(desired, s.Live)
	same := desired.DeepCopy()
	same.SetLabels(s.Live.GetLabels())
	same.SetAnnotations(s.Live.GetAnnotations())
	if apply.IsInPlace(s.Live, same) {
		return false
	}
	_, applied, err := e.send(ctx, client.NewDryRunClient(e.CRDs), s, desired)
	return err != nil || !equality.Semantic.DeepEqual(s.Live.Object["spec"], applied.Object["spec"])
}
