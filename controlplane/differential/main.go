// Command differential answers RBAC queries with Kubernetes' own code: the escalation check of the API server's
// storage and the RBAC authorizer. It reads one JSON world per line from stdin and writes one JSON answer per line to
// stdout, until stdin ends.
//
// test/differential compares its answers with Remit's. The command is part of this module because no other module may import
// k8s.io/kubernetes. It is a program rather than a library because no other module imports this one.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// world is the RBAC state of a cluster, together with queries about it.
type world struct {
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Questions           []question
}

// question asks whether a user may grant rules in a namespace ("" for the whole cluster). For each request, it also
// asks whether the rules allow the request and whether the user may make the request.
type question struct {
	User      string
	Groups    []string
	Namespace string
	Rules     []rbacv1.PolicyRule
	Requests  []request
}

type request struct {
	Verb, Group, Resource, Subresource, Name, Namespace string
	// Path is set for non-resource requests.
	Path string
	URL  bool
}

// answer is the answer to one question about a world. Wanted and Allowed contain one character, 0 or 1, for each
// request.
type answer struct {
	Covered         bool
	Wanted, Allowed string
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(bufio.NewReaderSize(in, 1<<20)), json.NewEncoder(out)
	for {
		var w world
		switch err := decoder.Decode(&w); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := encoder.Encode(w.answers()); err != nil {
			return err
		}
	}
}

func (w world) answers() []answer {
	resolver, roles := validation.NewTestRuleResolver(w.Roles, w.RoleBindings, w.ClusterRoles, w.ClusterRoleBindings)
	authz := rbac.New(roles, roles, roles, roles)
	out := make([]answer, len(w.Questions))
	for i, q := range w.Questions {
		who := &user.DefaultInfo{Name: q.User, Groups: q.Groups}
		ctx := genericapirequest.WithNamespace(genericapirequest.WithUser(context.Background(), who), q.Namespace)
		out[i].Covered = validation.ConfirmNoEscalation(ctx, resolver, q.Rules) == nil
		wanted, allowed := make([]byte, len(q.Requests)), make([]byte, len(q.Requests))
		for j, r := range q.Requests {
			attributes := r.by(who)
			decision, _, err := authz.Authorize(ctx, attributes)
			wanted[j] = digit(rbac.RulesAllow(attributes, q.Rules...))
			allowed[j] = digit(err == nil && decision == authorizer.DecisionAllow)
		}
		out[i].Wanted, out[i].Allowed = string(wanted), string(allowed)
	}
	return out
}

func digit(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

func (r request) by(who user.Info) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: who, Verb: r.Verb, APIGroup: r.Group, APIVersion: "*", Resource: r.Resource, Subresource: r.Subresource,
		Name: r.Name, Namespace: r.Namespace, ResourceRequest: !r.URL, Path: r.Path,
	}
}
