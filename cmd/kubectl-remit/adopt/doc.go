// Package adopt implements "kubectl remit adopt": it transfers management of the objects that OLM v0 has installed from
// OLM to Remit and, with --undo, back to OLM (docs/adr/0061).
//
// Remit recognizes its objects by a proof that is computed with a key. Only Remit's programs and administrators can read
// this key. The command runs as an administrator, reads the key, and adds the same proof to existing objects. world.go
// reads the cluster, judge.go decides about each object without sending requests, sign.go writes, and undo.go restores
// the objects from a record that was stored before the first write.
package adopt
