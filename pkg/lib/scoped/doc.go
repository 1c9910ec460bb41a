// Package scoped determines the account that bounds a namespace, and creates clients for accounts.
//
//	namespace --Lookup--> Account --Clients--> client.Client authenticated as that ServiceAccount
//
// The account is the ServiceAccount that the namespace's only OperatorGroup names, or else the installation's default
// account (security model, rule 2). Tokens are requested by TokenRequest, bound to the ServiceAccount's UID, kept in
// memory, refreshed after 80% of their lifetime and on 401, and dropped when the account is deleted (security model,
// closed list 4).
//
// All writes for an install use these clients. This package grants no permissions: the API server decides whether the
// controller identity is allowed to request a token (enrollment, rule 5).
package scoped
