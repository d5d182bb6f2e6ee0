package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// namespaces has a server in a namespace of its own, which lets in one service account of that
// namespace. A caller of the same name elsewhere has another identity, and short names lead to the
// caller's own namespace.
func namespaces(t *testing.T, c *cluster) {
	shop, books := c.in(t, "shop"), c.in(t, "books")
	for _, space := range []*cluster{shop, books} {
		space.apply(t,
			serviceAccount("clerk"), secured(as("clerk", echo("caller", "v1", 1)), time.Hour),
			secured(echo("server", space.namespace, 1), time.Hour),
			livemesh.Selecting(space.namespace, "server", "app: server", "http:80:8080"),
		)
	}
	shop.apply(t, livemesh.Object("AuthorizationPolicy shop/clerks", `
selector: {matchLabels: {app: server}}
rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/clerk]}}]}]
`))
	for _, space := range []*cluster{shop, books} {
		space.ready(t, "caller-v1", "server-"+space.namespace)
	}
	colleague, stranger := shop.from(t, "app=caller"), books.from(t, "app=caller")
	colleague.until(t, "http://server/", "the shop's server", version("shop"))
	stranger.until(t, "http://server/", "the books' server", version("books"))
	stranger.until(t, "http://server.shop/", "403", status(http.StatusForbidden))
	colleague.until(t, "http://server.books.svc.cluster.local/", "the books' server", version("books"))
	require.Len(t, c.pods(t, "app=server"), 2, "those of the first namespace")
}

// as is a Deployment whose Pods have a service account.
func as(account, manifest string) string {
	return strings.Replace(manifest, "      containers:\n",
		"      serviceAccountName: "+account+"\n      containers:\n", 1)
}

// serviceAccount is the manifest of one.
func serviceAccount(name string) string {
	return "\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + name + "}\n"
}
