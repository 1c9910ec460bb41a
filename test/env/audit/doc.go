// Package audit reads the API server's audit log and knows what Remit's own identities may do: the
// closed list of the security model, as a rule over single requests.
package audit
