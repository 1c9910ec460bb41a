package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/preflight"
)

const (
	// maxOutside limits the compressed size, in bytes, of the part of a record that describes objects outside the namespace.
	// Users of other namespaces can create such objects, so the objects of the namespace have the rest for themselves.
	maxOutside = maxRecord / 2
	// maxOutsideContent limits the size of the same part before it is compressed.
	maxOutsideContent = maxContent / 2
	// maxAnswer limits the length of an answer of the API server in the report. Webhooks of others can choose its text.
	maxAnswer = 500
)

// isOutside reports whether an object is in another namespace or cluster-scoped. Users of other namespaces can create such objects
// with OLM's labels, and change them at any time, so no such object prevents an adoption or its reversal.
func (p *plan) isOutside(obj client.Object) bool { return obj.GetNamespace() != p.namespace }

// enter adds the objects to sign to the record. Objects outside the namespace for which the record has no space are left.
func (p *plan) enter(rec *record) error {
	var outside []entry
	for i := range p.signs {
		one, err := p.signs[i].record()
		switch {
		case err != nil:
			return err
		case rec.has(one):
		case !p.isOutside(p.signs[i].object):
			rec.add(one)
		default:
			size, err := json.Marshal(one)
			if err != nil {
				return err
			}
			outside = append(outside, entry{one, len(size), i})
		}
	}
	kept, left, err := rec.fit(outside)
	if err != nil {
		return err
	}
	for _, e := range kept {
		rec.add(e.object)
	}
	for _, e := range left {
		p.leave(&p.signs[e.sign], "the record of the adoption has no space for it, because there are too many or too large objects outside the namespace")
	}
	return nil
}

// entry is an object to record, with its size in bytes and the index of its signing.
type entry struct {
	object     recordedObject
	size, sign int
}

// fit selects the objects outside the namespace that are recorded. Each namespace has the same share, so that the objects of one
// namespace do not take the space of those in others.
func (r *record) fit(outside []entry) (kept, left []entry, err error) {
	var known []recordedObject
	for _, obj := range r.Objects {
		if obj.Namespace != r.Namespace {
			known = append(known, obj)
		}
	}
	for share := maxOutsideContent; share > 0; share /= 2 {
		kept, left = divide(outside, share)
		all, size := slices.Clip(known), 0
		for _, e := range kept {
			all, size = append(all, e.object), size+e.size
		}
		if size > maxOutsideContent {
			continue
		}
		size, data, err := encode(&record{Namespace: r.Namespace, Objects: all})
		if err != nil || size <= maxOutsideContent && len(data) <= maxOutside {
			return kept, left, err
		}
	}
	return nil, outside, nil
}

// divide keeps as many objects of each namespace as fit into a share of bytes.
func divide(outside []entry, share int) (kept, left []entry) {
	used := map[string]int{}
	for _, e := range outside {
		if used[e.object.Namespace]+e.size > share {
			left = append(left, e)
			continue
		}
		used[e.object.Namespace] += e.size
		kept = append(kept, e)
	}
	return kept, left
}

// leave changes the verdict about an object outside the namespace that is not signed. Bindings of a role that is left are left too.
func (p *plan) leave(g *signing, why string) {
	g.left = true
	switch g.object.(type) {
	case *rbacv1.Role, *rbacv1.ClusterRole:
		if p.leftRoles == nil {
			p.leftRoles = map[roleKey]bool{}
		}
		p.leftRoles[roleKey{apply.KindOf(g.object), g.object.GetNamespace(), g.object.GetName()}] = true
	}
	want := Object{Kind: apply.KindOf(g.object), Namespace: g.object.GetNamespace(), Name: g.object.GetName(), Verdict: Adopt, For: g.owner.CSV}
	for i := range p.report.Objects {
		if p.report.Objects[i] == want {
			p.report.Objects[i].Verdict, p.report.Objects[i].Why = Left, why
		}
	}
}

// signAll signs the objects of a plan. An object outside the namespace is left if the API server refuses to change it, for example
// because its annotations have no space for the proof, or because it was changed after it was read. Other errors, such as an overload or
// a missing permission, say nothing about the object and end the adoption, which can be run again.
func (s *signer) signAll(ctx context.Context, p *plan) error {
	for i := range p.signs {
		g := &p.signs[i]
		if isBinding(g.object) && p.leftRoles[boundRole(g.object)] {
			role := boundRole(g.object)
			p.leave(g, fmt.Sprintf("it binds %s %s, which is left", role.kind, role.name))
		}
		if g.left {
			continue
		}
		err := s.sign(ctx, g)
		switch {
		case err == nil:
		case !p.isOutside(g.object) || !preflight.IsAboutObject(err):
			return err
		case g.owner.Owns(g.object):
			p.leave(g, "it has the proof, but OLM's fields could not be moved: "+message.Cut(err.Error(), maxAnswer))
		default:
			p.leave(g, unchanged(err))
		}
	}
	return nil
}

// unchanged returns the reason why an object is left that the API server refused to change.
func unchanged(err error) string {
	return "it could not be changed: " + message.Cut(err.Error(), maxAnswer)
}
