// Package proof creates and verifies the annotation by which Remit recognizes the objects that it created. Clients can choose
// labels, field managers and owner references; a proof is a MAC under a key that only Remit's programs can read (docs/adr/0019).
//
// A proof applies to one holder: a text that identifies what the object was created for. Callers define the meaning of
// holders and what a proof permits.
package proof
