package scopedcache

// floors contains, for each scope, its floor: the version up to which its events have been reported. The floor of a part
// does not apply to the rest of the scope, because the feed of the part may have been ahead.
type floors map[Scope]string

// raise sets the floor of a scope, unless it is already higher.
func (f floors) raise(scope Scope, version string) {
	if f[scope] == "" || older(f[scope], version) {
		f[scope] = version
	}
}

// of returns the version up to which the events of an object were reported, or "" if there is none.
func (f floors) of(namespace, name string) string {
	out := ""
	for _, scope := range []Scope{Object(namespace, name), Namespace(namespace), Cluster()} {
		if floor := f[scope]; out == "" || older(out, floor) {
			out = floor
		}
	}
	return out
}

// within returns the floors of a scope and its parts. The floor of a wider scope becomes a floor of the scope itself,
// because it is not valid for other parts of the wider scope that no feed serves.
func (f floors) within(scope Scope) floors {
	out := floors{}
	if scope.object {
		if floor := f.of(scope.namespace, scope.name); floor != "" {
			out[scope] = floor
		}
		return out
	}
	for other, floor := range f {
		switch {
		case scope.Covers(other):
			out.raise(other, floor)
		case other.Covers(scope):
			out.raise(scope, floor)
		}
	}
	return out
}
