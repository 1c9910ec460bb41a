// Package message writes the text that people read: conditions, events, and the output of commands. All text that contains
// data of others (of bundles, catalogs, or objects in the cluster) goes through this package.
//
// A Text consists of lines, followed by YAML documents. Only constants and this package's functions make a Text, so that:
//
//   - A string of others is part of one line. It cannot end the line, and at the beginning of a line it cannot look like a YAML
//     document or comment, a Markdown block, or a terminal sequence.
//   - All documents are encoded from objects, and no line follows them. A user who pastes a Text, or everything from the first
//     "---", into kubectl apply therefore applies exactly these objects.
//
// The package test/text checks that there is no other way into conditions, events and standard output.
package message
