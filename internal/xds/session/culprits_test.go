package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

func TestCulpritsAreFoundInEnvoysMessage(t *testing.T) {
	type want struct{ guilty, innocent, first, second []string }
	for name, c := range map[string]struct {
		message string
		names   []string
		want    want
	}{
		"alone": {
			message: "whatever", names: []string{"a"},
			want: want{guilty: []string{"a"}},
		},
		"listed": {
			message: "Error adding/updating cluster(s) outbound|80||a.b: no, outbound|80||a.b.c: neither",
			names:   []string{"outbound|80||a", "outbound|80||a.b", "outbound|80||a.b.c"},
			want: want{
				guilty:   []string{"outbound|80||a.b", "outbound|80||a.b.c"},
				innocent: []string{"outbound|80||a"},
			},
		},
		"listeners": {
			message: "Error adding/updating listener(s) 0.0.0.0_80: " +
				"Only a single wildcard domain is permitted in route 0.0.0.0_81",
			names: []string{"0.0.0.0_80", "0.0.0.0_81"},
			want:  want{guilty: []string{"0.0.0.0_80"}, innocent: []string{"0.0.0.0_81"}},
		},
		"several listeners": {
			message: "Error adding/updating listener(s) 0.0.0.0_80: no\n0.0.0.0_81: neither\n",
			names:   []string{"0.0.0.0_80", "0.0.0.0_81", "0.0.0.0_82"},
			want:    want{guilty: []string{"0.0.0.0_80", "0.0.0.0_81"}, innocent: []string{"0.0.0.0_82"}},
		},
		"free text": {
			message: "Only a single wildcard domain is permitted in route 81",
			names:   []string{"8", "80", "81"},
			want:    want{first: []string{"81"}, second: []string{"8", "80"}},
		},
		"free text ends a sentence": {
			message: `Proto constraint validation failed for "80". Value is empty`,
			names:   []string{"80", "81"},
			want:    want{first: []string{"80"}, second: []string{"81"}},
		},
		"part of another name": {
			message: "malformed IP address: 10.0.0.1:80",
			names:   []string{"10.0.0.1", "80"},
			want:    want{first: []string{"10.0.0.1"}, second: []string{"80"}},
		},
		"no name": {
			message: "undecodable", names: []string{"a", "b", "c"},
			want: want{first: []string{"a"}, second: []string{"b", "c"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*resource.Resource
			for _, n := range c.names {
				all = append(all, resource.New(n, []byte(n)))
			}
			guilty, innocent, groups := findCulprits(c.message, all)
			got := want{guilty: names(guilty), innocent: names(innocent)}
			if groups != nil {
				require.Len(t, groups, 2)
				got.first, got.second = names(groups[0]), names(groups[1])
			}
			require.Equal(t, c.want, got)
		})
	}
}

func names(list []*resource.Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name())
	}
	return out
}
