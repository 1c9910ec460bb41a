// Package rbac computes, from listers, the rules that apply to a user in a scope and which of the wanted rules are
// missing. Its answers explain; they never authorize a write, because the API server decides that at the moment of
// the write (security model, rule 1).
//
// Coverage matches Covers of component-helpers, the function behind the API server's own escalation check, but in
// time proportional to the rules. The semantics are those of the design page "Rule-check semantics".
package rbac
