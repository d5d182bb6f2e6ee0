package model

import (
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProxyConfigsForAWorkload(t *testing.T) {
	of := func(namespace, name string, selector map[string]string) *ProxyConfig {
		return &ProxyConfig{Meta: Meta{Namespace: namespace, Name: name}, Selector: LabelsOf(selector)}
	}
	app := func(name string) map[string]string { return map[string]string{"app": name} }
	all := []*ProxyConfig{ // in the total order
		of("root", "mesh", nil), of("root", "root-web", app("web")), of("root", "second", nil),
		of("shop", "old-web", app("web")), of("shop", "web", app("web")), of("shop", "shop", nil),
	}
	in := func(namespace string) iter.Seq[*ProxyConfig] {
		return slices.Values(slices.DeleteFunc(slices.Clone(all), func(c *ProxyConfig) bool {
			return c.Namespace != namespace
		}))
	}
	names := func(namespace string, labels map[string]string) []string {
		found := ProxyConfigsFor("root", namespace, LabelsOf(labels), in)
		var out []string
		for _, c := range []*ProxyConfig{found.Mesh, found.Namespace, found.Workload} {
			if c == nil {
				out = append(out, "")
			} else {
				out = append(out, c.Name)
			}
		}
		return out
	}
	require.Equal(t, []string{"mesh", "shop", "old-web"}, names("shop", app("web")))
	require.Equal(t, []string{"mesh", "shop", ""}, names("shop", app("db")))
	require.Equal(t, []string{"mesh", "", ""}, names("other", app("web")), "selectors are for their namespace")
	require.Equal(t, []string{"mesh", "", "root-web"}, names("root", app("web")))
}
