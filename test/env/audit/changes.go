package audit

// Changes counts how often each object was created and deleted by these requests. The keys have the form
// "create <resource>.<group> <namespace>/<name>". Requests that store nothing and Events are not counted.
func Changes(events []Event) map[string]int {
	times := map[string]int{}
	for _, e := range events {
		if !e.Wrote() || e.Object == nil || e.Object.Subresource != "" || isTransient(*e.Object) {
			continue
		}
		id := e.Object.Resource + "." + e.Object.APIGroup + " " + e.Object.Namespace + "/" + e.Object.Name
		switch {
		case e.Created():
			times["create "+id]++
		case e.Verb == "delete":
			times["delete "+id]++
		}
	}
	return times
}

// isTransient reports whether objects of the kind only answer a question or record what happened.
func isTransient(o Object) bool {
	return o.APIGroup == "authentication.k8s.io" || o.APIGroup == "authorization.k8s.io" || o.Resource == "events"
}
