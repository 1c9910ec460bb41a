// Package author holds the author check (docs/adr/0008) to what it is for, on a real API server, in both
// profiles: nobody makes an OperatorGroup name, or stand for, an account that they could not act as
// themselves; and nobody is kept from any other change.
package author
