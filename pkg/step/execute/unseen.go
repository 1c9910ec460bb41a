package execute

import (
	"context"
	"errors"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// listed contains the RoleBindings of a namespace that the cache does not contain yet, or the error if they are too many or cannot be listed.
type listed struct {
	unseen  []*rbacv1.RoleBinding
	delayed error
}

func (e *Executor) list(ctx context.Context, s State) (listed, error) {
	unseen, err := e.roles(s).unseen(ctx, s.Step.Object)
	if _, delayed := errors.AsType[*apply.DelayedError](err); delayed {
		return listed{delayed: err}, nil
	}
	return listed{unseen: unseen}, err
}

// checkUnseen examines the RoleBindings that exist although the cache does not contain them yet, once for each namespace in which
// the plan creates a Role of an operator, or a binding that GatherNew has not read. Such a binding may refer to a Role of the
// plan: its subjects would get the permissions when the Role is created.
func (e *Executor) checkUnseen(ctx context.Context, states []State, isUnread func(State) bool) error {
	if !e.RBAC.Readable() {
		return nil
	}
	namespaces := map[string]listed{}
	for i := range states {
		s := &states[i]
		unread, namespace := isUnread(*s), s.Step.Object.GetNamespace()
		isNew := s.Step.Object.GetKind() == "Role" && s.Live == nil && rendered(*s)
		if s.Problem != nil || namespace == "" || !unread && !isNew {
			continue
		}
		found, known := namespaces[namespace]
		if !known {
			var err error
			if found, err = e.list(ctx, *s); err != nil {
				return err
			}
			namespaces[namespace] = found
		}
		if s.Problem = found.delayed; s.Problem != nil {
			continue
		}
		if err := e.checkOneUnseen(ctx, s, found.unseen, unread); err != nil {
			return err
		}
	}
	return nil
}

// checkOneUnseen sets the problem of one state. It reads a binding that GatherNew has not read and that exists.
func (e *Executor) checkOneUnseen(ctx context.Context, s *State, unseen []*rbacv1.RoleBinding, unread bool) error {
	if !unread {
		s.Problem = e.roles(*s).judgeAll(ctx, s.Step.Object, unseen)
		return nil
	}
	if !slices.ContainsFunc(unseen, func(b *rbacv1.RoleBinding) bool { return b.Name == s.Step.Object.GetName() }) {
		return nil
	}
	found := e.live(ctx, s.Step)
	if found.err != nil {
		return found.err
	}
	s.Live, s.Problem = found.live, found.problem
	if s.Problem == nil {
		s.Problem = e.check(ctx, *s)
	}
	return nil
}
