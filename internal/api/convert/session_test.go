package convert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func TestLabelsOfAServiceGiveItsClientsSessions(t *testing.T) {
	cookie := func(value string) map[string]string { return map[string]string{sessionCookieLabel: value} }
	header := func(value string) map[string]string { return map[string]string{sessionHeaderLabel: value} }
	byCookie := &model.Session{Cookie: "s", Path: "/"}
	for name, c := range map[string]struct {
		labels  map[string]string
		off     bool
		want    *model.Session
		problem string
	}{
		"a cookie":             {cookie("s"), false, byCookie, ""},
		"a cookie with a path": {cookie("s:/a"), false, &model.Session{Cookie: "s", Path: "/a"}, ""},
		"a header":             {header("X-S"), false, &model.Session{Header: "x-s"}, ""},
		"both": {
			map[string]string{sessionCookieLabel: "s", sessionHeaderLabel: "x-s"}, false, byCookie, "is set beside",
		},
		"no cookie": {cookie("s s"), false, nil, "is no cookie"},
		"no path":   {cookie("s:a"), false, nil, "is no cookie"},
		"no header": {header("a b"), false, nil, "is no name of a header"},
		"off":       {cookie("s"), true, nil, "has no effect"},
	} {
		t.Run(name, func(t *testing.T) {
			object := kinds.Service.NewObject()
			object.SetNamespace("default")
			object.SetName("web")
			object.SetLabels(c.labels)
			mesh := model.DefaultMesh()
			mesh.Sessions = !c.off
			key := source.Key{Kind: kinds.Service, Namespace: "default", Name: "web"}
			result := New(Options{}).Convert(source.Change{Key: key, Object: object}, mesh)
			require.Equal(t, c.want, result.Objects[0].(*model.Service).Session)
			requireProblem(t, result, c.problem)
		})
	}
}

func requireProblem(t *testing.T, result Result, message string) {
	t.Helper()
	if message == "" {
		require.Empty(t, result.Problems)
		return
	}
	require.NotEmpty(t, result.Problems)
	require.Contains(t, result.Problems[0].String(), message)
}

func TestRulesOfTheGatewayAPIHaveSessions(t *testing.T) {
	byCookie := &model.Session{Cookie: "s", Path: "/"}
	for name, c := range map[string]struct {
		spec    string
		want    *model.Session
		problem string
	}{
		"a cookie": {`{"sessionName":"s"}`, byCookie, ""},
		"a cookie that stays": {
			`{"sessionName":"s","absoluteTimeout":"1h","cookieConfig":{"lifetimeType":"Permanent"}}`,
			&model.Session{Cookie: "s", Path: "/", TTL: time.Hour}, "",
		},
		"a header": {`{"sessionName":"x-s","type":"Header"}`, &model.Session{Header: "x-s"}, ""},
		"a timeout without effect": {
			`{"sessionName":"s","absoluteTimeout":"1h"}`, byCookie, "has no effect on a cookie",
		},
		"a lifetime without an end": {`{"cookieConfig":{"lifetimeType":"Permanent"}}`, nil, "is missing"},
		"a name that is none":       {`{"sessionName":"a b"}`, nil, "is no name of a cookie"},
		"a kind that is none":       {`{"sessionName":"s","type":"Query"}`, nil, "is no kind of session"},
	} {
		t.Run(name, func(t *testing.T) {
			change := written(t, kinds.HTTPRoute, "web", `{"parentRefs":[{"name":"public"}],"rules":[`+
				`{"sessionPersistence":`+c.spec+`,"backendRefs":[{"name":"web","port":80}]}]}`)
			mesh := model.DefaultMesh()
			mesh.Sessions = true
			result := New(Options{}).Convert(change, mesh)
			requireProblem(t, result, c.problem)
			route := result.Objects[0].(*model.AttachedRoute).HTTP[0]
			require.Equal(t, c.want, route.Session)
			require.Equal(t, c.want == nil, route.Broken != "")
		})
	}
}
