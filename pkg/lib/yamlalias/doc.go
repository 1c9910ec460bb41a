// Package yamlalias bounds what the aliases of a YAML text may expand to, before the text is turned into
// JSON. Whoever reads YAML that somebody else wrote calls it first (security model, rule 8).
package yamlalias
