// Package rbac answers, from listers handed in, which rules a user holds in a scope and which of the
// wanted rules are missing. It is the explainer: what it says is never a permission to write, since
// the API server decides that at the moment of the write (security model, rule 1).
//
// Coverage says what component-helpers' Covers does, the function of the API server's own escalation check, in time that
// grows as the rules do; the semantics are those of the design page "Rule-check semantics".
package rbac
