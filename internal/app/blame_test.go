package app

import (
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lateen-mesh/lateen/internal/admin/history"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// hostOf is a virtual host of routes with these prefixes, each with a timeout in seconds.
func hostOf(t *testing.T, routes ...any) *resource.Resource {
	t.Helper()
	host := &routev3.VirtualHost{Name: "web", Domains: []string{"web"}}
	for i := 0; i < len(routes); i += 2 {
		host.Routes = append(host.Routes, &routev3.Route{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: routes[i].(string)}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				Timeout: durationpb.New(time.Duration(routes[i+1].(int)) * time.Second),
			}},
		})
	}
	body, err := proto.Marshal(host)
	require.NoError(t, err)
	return resource.Restored(resource.VirtualHost, "80/web", body, resource.New("", body).Version(), false)
}

// blamed are forms that came one after the other, the newest first, by generations of such numbers.
func blamed(forms ...*resource.Resource) (all []history.Form) {
	for i, r := range forms {
		all = append(all, history.Form{Resource: r, By: page.Generation{Generation: uint64(len(forms) - i)}})
	}
	return all
}

// TestBlameFollowsRoutes: a part is blamed on the change that made it what it is where it is now,
// though others came before it and went since; what is gone is nobody's.
func TestBlameFollowsRoutes(t *testing.T) {
	b := blameOf(resource.VirtualHost, blamed(
		hostOf(t, "/new", 1, "/a", 1, "/b", 9), // 6: /gone went
		hostOf(t, "/new", 1, "/gone", 1, "/a", 1, "/b", 9),
		hostOf(t, "/gone", 1, "/a", 1, "/b", 9), // 4: /new came before it
		hostOf(t, "/gone", 7, "/a", 1, "/b", 2), // 3: two timeouts changed before
		hostOf(t, "/b", 2),                      // 2: two came
		nil,                                     // 1: it was not there
	))
	parts := map[uint64][]page.FieldChange{}
	for _, c := range b.Changes {
		parts[c.Generation] = c.Parts
	}
	require.Equal(t, map[uint64][]page.FieldChange{
		5: {{Path: "routes[0]", After: parts[5][0].After}},
		4: {{Path: "routes[2].route.timeout", Before: `"2s"`, After: `"9s"`}},
		3: {{Path: "routes[1]", After: parts[3][0].After}},
		2: nil,
	}, parts)
	require.Contains(t, parts[5][0].After, "/new")
	require.Contains(t, parts[3][0].After, "/a")
	require.True(t, b.Changes[len(b.Changes)-1].Rest)
	require.True(t, b.Since.IsZero())
}

// TestBlameEndsWhereNothingIsRemembered: and says since when it is known.
func TestBlameEndsWhereNothingIsRemembered(t *testing.T) {
	forms := blamed(hostOf(t, "/", 3), hostOf(t, "/", 2), hostOf(t, "/", 1))
	forms[1].By.At = time.Unix(100, 0)
	forms[2].Forgotten = true
	b := blameOf(resource.VirtualHost, forms)
	require.Len(t, b.Changes, 1)
	require.Equal(t, time.Unix(100, 0), b.Since)
}
