// Package scoped determines the account that bounds a namespace, and creates clients for accounts and for the synthetic
// users of ClusterExtensions.
//
//	namespace --Lookup--> Account --Clients--> client.Client authenticated as that ServiceAccount
//	ClusterExtension --> Identity --Clients--> client.Client as its ServiceAccount or its synthetic user
//
// The account is the ServiceAccount that the namespace's only OperatorGroup names or, if it names none, the
// installation's default account (security model, rule 2). Tokens are requested through the TokenRequest API, bound to
// the ServiceAccount's UID, kept in memory, refreshed after 80% of their lifetime and after a 401 response, and dropped
// when the account is deleted, or when its client was not used for the life of a token (docs/adr/0002).
//
// A synthetic user has no ServiceAccount. Its client impersonates it with the controller identity's own credentials
// (docs/adr/0044).
//
// All writes for an install use these clients. This package grants no permissions: the API server decides whether the
// controller identity is allowed to request a token or to impersonate a user (enrollment; rule 5 of the security model).
package scoped
