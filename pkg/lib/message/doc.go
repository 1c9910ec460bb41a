// Package message writes text that people read and that contains data of others (of bundles, catalogs, or objects in the cluster).
//
// A Text consists of lines, followed by YAML documents:
//
//   - A string of others is part of one line. It cannot end the line, and at the beginning of a line it cannot look like a YAML
//     document or comment, a Markdown block, or a terminal sequence.
//   - All documents are encoded from objects, and no line follows them. A user who pastes a Text, or everything from the first
//     "---", into kubectl apply therefore applies exactly these objects.
package message
