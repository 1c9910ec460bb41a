// Package scoped turns a namespace into the account that bounds it, and the account into a client.
//
//	namespace --Lookup--> Account --Clients--> client.Client authenticated as that ServiceAccount
//
// The account is the ServiceAccount that the namespace's one OperatorGroup names, else the default
// account of the installation's own configuration (security model, rule 2). Tokens come from
// TokenRequest only, pinned to the ServiceAccount's UID, are held in memory, refreshed at 80 % of
// their life and on 401, and dropped when the account goes (security model, closed list 4).
//
// Whoever writes for an install asks here; nothing here grants a right: whether self may mint the
// token is decided by the API server (enrolment, rule 5).
package scoped
