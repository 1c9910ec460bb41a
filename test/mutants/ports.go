package mutants

// ports returns the mutants of the limits for ports, which clients reach without credentials (docs/adr/0067), and of what users are
// told about webhooks.
func ports() []Mutant {
	return []Mutant{
		{
			Name: "ports-take-every-connection", Rule: 8, File: "pkg/lib/listen/listener.go",
			Old:    "if l.counted >= l.limits.Connections {",
			New:    "if false {",
			Killer: unit("pkg/lib/listen", "TestUnfinishedHeadersUseLittleMemory"),
		},
		{
			Name: "one-client-takes-all-connections", Rule: 8, File: "pkg/lib/listen/listener.go",
			Old:    "if own >= l.limits.PerClient {",
			New:    "if false {",
			Killer: unit("pkg/controller", "TestTheHealthAndMetricsPortsAreLimited"),
		},
		{
			Name: "a-full-port-serves-nobody-else", Rule: 8, File: "pkg/lib/listen/listener.go",
			Old:    "evicted == nil || len(l.clients[evicted.client]) <= own {",
			New:    "evicted != nil || own < 0 {",
			Killer: unit("pkg/packages/server", "TestLimitsConnectionsExceptThoseOfTheAPIServer"),
		},
		{
			Name: "headers-are-not-limited", Rule: 8, File: "pkg/lib/listen/server.go",
			Old:    "MaxHeaderBytes: MaxHeaderBytes, ErrorLog",
			New:    "MaxHeaderBytes: 1 << 20, ErrorLog",
			Killer: unit("pkg/lib/listen", "TestUnfinishedHeadersUseLittleMemory"),
		},
		{
			Name: "clients-send-without-being-authorized", Rule: 8, File: "pkg/lib/listen/listener.go",
			Old:    "if limit == 0 || c.trusted || c.closed {",
			New:    "if limit >= 0 {",
			Killer: unit("pkg/lib/listen", "TestLimitsWhatAClientSendsBeforeARequestIsServed"),
		},
		{
			Name: "any-client-certificate-is-the-api-server", Rule: 8, File: "pkg/packages/server/access.go",
			Old:    "if _, err := leaf.Verify(options); err != nil {",
			New:    "if _, err := leaf.Verify(options); err == nil && false {",
			Killer: unit("pkg/packages/server", "TestLimitsConnectionsExceptThoseOfTheAPIServer"),
		},
		{
			Name: "any-front-proxy-is-the-api-server", Rule: 8, File: "pkg/packages/server/access.go",
			Old:    "return len(names) == 0 || slices.Contains(names, leaf.Subject.CommonName)",
			New:    "return len(names) >= 0 || slices.Contains(names, leaf.Subject.CommonName)",
			Killer: unit("pkg/packages/server", "TestLimitsConnectionsExceptThoseOfTheAPIServer"),
		},
		{
			Name: "everyone-sends-catalogs", Rule: 3, File: "pkg/packages/server/access.go",
			Old:    "if a.GetResource() == packagesv1.ResourcePackageCatalogs && (",
			New:    "if a.GetResource() == packagesv1.ResourcePackageCatalogs && a.IsReadOnly() && (",
			Killer: unit("pkg/packages/server", "TestOnlyTheCatalogProgramSendsCatalogs"),
		},
		{
			Name: "everyone-watches-which-catalogs-are-served", Rule: 8, File: "pkg/packages/server/access.go",
			Old:    "if a.GetResource() == packagesv1.ResourcePackageCatalogs && (",
			New:    "if a.GetResource() == packagesv1.ResourcePackageCatalogs && !a.IsReadOnly() && (",
			Killer: unit("pkg/packages/server", "TestOnlyTheCatalogProgramSendsCatalogs"),
		},
		{
			Name: "requests-without-credentials-are-reviewed", Rule: 8, File: "pkg/packages/server/access.go",
			Old:    "if ok && got.User.GetName() == user.Anonymous &&",
			New:    "if ok && got.User.GetName() == user.AllUnauthenticated &&",
			Killer: unit("pkg/packages/server", "TestRequestsFromPodsLeaveTheServerAvailable"),
		},
		{
			Name: "a-user-has-all-reviews", Rule: 8, File: "pkg/packages/server/room.go",
			Old:    "reviews: semaphore.NewWeighted(maxReviews)",
			New:    "reviews: semaphore.NewWeighted(100 * maxReviews)",
			Killer: unit("pkg/packages/server", "TestRequestsOfUsersLeaveTheServerAvailable"),
		},
		{
			Name: "each-selector-is-reviewed", Rule: 8, File: "pkg/packages/server/access.go",
			Old:    "l.delegate.Authorize(ctx, withoutSelectors{a})",
			New:    "l.delegate.Authorize(ctx, a)",
			Killer: unit("pkg/packages/server", "TestWatchesDoNotCountAsRequests"),
		},
		{
			Name: "probes-need-what-requests-need", Rule: 8, File: "pkg/packages/server/clients.go",
			Old:    "case \"/healthz\", \"/livez\", \"/readyz\":",
			New:    "case \"/healthz\":",
			Killer: unit("pkg/packages/server", "TestRequestsFromPodsLeaveTheServerAvailable"),
		},
		{
			Name: "pods-take-the-requests-of-users", Rule: 8, File: "pkg/packages/server/clients.go",
			Old:    "return c.direct.enter(address)",
			New:    "return c.forwarded.enter(address)",
			Killer: unit("pkg/packages/server", "TestRequestsFromPodsLeaveTheServerAvailable"),
		},
		{
			Name: "a-pod-takes-the-requests-of-others", Rule: 8, File: "pkg/packages/server/clients.go",
			Old:    "newQuota(maxDirect, maxDirectClient)",
			New:    "newQuota(maxDirect, maxDirect)",
			Killer: unit("pkg/packages/server", "TestRequestsFromPodsLeaveTheServerAvailable"),
		},
		{
			Name: "any-number-of-requests-waits", Rule: 8, File: "pkg/packages/server/clients.go",
			Old:    "if q.all >= q.most || ",
			New:    "if ",
			Killer: unit("pkg/packages/server", "TestRequestsOfUsersLeaveTheServerAvailable"),
		},
		{
			Name: "any-client-names-its-user", Rule: 8, File: "pkg/packages/server/clients.go",
			Old:    "c.header == nil || !c.listener.IsTrusted(r.RemoteAddr)",
			New:    "c.header == nil",
			Killer: unit("pkg/packages/server", "TestRequestsFromPodsLeaveTheServerAvailable"),
		},
		{
			Name: "users-take-the-requests-of-the-catalog-program", Rule: 8, File: "pkg/packages/server/clients.go",
			Old:    "case from.GetName() == c.writer || ",
			New:    "case ",
			Killer: unit("pkg/packages/server", "TestRequestsOfUsersLeaveTheServerAvailable"),
		},
		{
			Name: "users-take-the-requests-of-the-api-server", Rule: 8, File: "pkg/packages/server/clients.go",
			Old:    "slices.Contains(from.GetGroups(), user.SystemPrivilegedGroup)",
			New:    "slices.Contains(from.GetGroups(), user.AllUnauthenticated)",
			Killer: unit("pkg/packages/server", "TestRequestsOfUsersLeaveTheServerAvailable"),
		},
		{
			Name: "watches-count-as-requests", Rule: 8, File: "pkg/packages/server/room.go",
			Old:    "	uncount(ctx)\n",
			New:    "",
			Killer: unit("pkg/packages/server", "TestWatchesDoNotCountAsRequests"),
		},
		{
			Name: "a-catalog-may-arrive-forever", Rule: 8, File: "pkg/packages/server/catalogs.go",
			Old:    "SetReadDeadline(time.Now().Add(c.receiving))",
			New:    "SetReadDeadline(time.Time{})",
			Killer: unit("pkg/packages/server", "TestLimitsTheTimeForReceivingACatalog"),
		},
		{
			Name: "webhooks-are-not-announced", Rule: 0, File: "pkg/controller/installplan/run.go",
			Old:    "return proceed(), s.announceWebhooks()",
			New:    "return proceed(), nil",
			Killer: unit("pkg/controller/installplan", "TestAPlanAnnouncesItsWebhooksBeforeItIsApproved"),
		},
		{
			Name: "automatic-plans-announce-no-webhooks", Rule: 0, File: "pkg/controller/installplan/run.go",
			Old:    "return proceed(), s.announceWebhooks()",
			New:    "if s.plan.Spec.Approval == operatorsv1alpha1.ApprovalAutomatic {\n\t\treturn proceed(), nil\n\t}\n\treturn proceed(), s.announceWebhooks()",
			Killer: unit("pkg/controller/installplan", "TestAPlanAnnouncesItsWebhooksBeforeItIsApproved"),
		},
		{
			Name: "deleted-versions-stay-the-latest", Rule: 0, File: "pkg/controller/subscription/status.go",
			Old:    "v.installed == nil && (v.problem != nil || v.deleting == \"\"):",
			New:    "v.installed == nil && v.problem != nil:",
			Killer: unit("pkg/controller/subscription", "TestWriteInstall"),
		},
		{
			Name: "subscriptions-announce-no-webhooks", Rule: 0, File: "pkg/controller/subscription/reconciler.go",
			Old:    "newWebhooks(&sub.Status, &after.Status); ok {",
			New:    "newWebhooks(&sub.Status, &after.Status); ok && err != nil {",
			Killer: unit("pkg/controller/subscription", "TestAnnouncesTheWebhooksOfAPlanInAnEvent"),
		},
		{
			Name: "names-of-webhooks-are-text", Rule: 8, File: "pkg/controller/installplan/webhooks.go",
			Old:    `out = append(out, fmt.Sprintf("%q", status.Cut(one, maxName)))`,
			New:    `out = append(out, status.Cut(one, maxName))`,
			Killer: unit("pkg/controller/installplan", "TestAnnouncesWebhooks"),
		},
		{
			Name: "tokens-of-serviceaccounts-are-no-power", Rule: 0, File: "pkg/rbac/powers.go",
			Old:    `		{verb: "create", resource: "serviceaccounts/token"},` + "\n",
			New:    "",
			Killer: unit("pkg/rbac", "TestPowersFindsRulesThatAmountToClusterAdmin"),
		},
		{
			Name: "one-client-holds-all-responses", Rule: 8, File: "pkg/catalog/web/turns.go",
			Old:    "make(chan struct{}, maxShare)",
			New:    "make(chan struct{}, maxResponses)",
			Killer: unit("pkg/catalog/web", "TestLimitsConcurrentResponsesPerClient"),
		},
		{
			Name: "responses-without-a-body-need-no-turn", Rule: 8, File: "pkg/catalog/web/server.go",
			Old:    "	end, ok := s.turn(r.Context(), r.RemoteAddr)\n	if !ok {\n",
			New:    "	end, ok := s.turn(r.Context(), r.RemoteAddr)\n	if end == nil {\n		end, ok = func() {}, r.Method == http.MethodHead\n	}\n	if !ok {\n",
			Killer: unit("pkg/catalog/web", "TestLimitsConcurrentResponses"),
		},
	}
}
