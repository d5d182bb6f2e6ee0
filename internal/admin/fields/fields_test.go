package fields

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// TestChangedFieldsNameWhatDiffers: objects by field, lists by name where they have one, and else
// what lies between equal ends.
func TestChangedFieldsNameWhatDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []page.FieldChange
	}{
		"nothing": {`{"a": {"b": [1, 2]}}`, `{"a": {"b": [1, 2]}}`, nil},
		"a field": {`{"a": {"b": 1, "c": true}}`, `{"a": {"b": 2, "c": true}}`,
			[]page.FieldChange{{Path: "a.b", Before: "1", After: "2"}}},
		"fields that come and go": {`{"a": {"b": 1}}`, `{"a": {"c": [2]}}`,
			[]page.FieldChange{{Path: "a.b", Before: "1"}, {Path: "a.c", After: "[2]"}}},
		"a member by name": {
			`{"l": [{"name": "x", "v": 1}, {"name": "y", "v": 1}]}`, `{"l": [{"name": "y", "v": 2}, {"name": "z"}]}`,
			[]page.FieldChange{
				{Path: "l[x]", Before: `{"name":"x","v":1}`}, {Path: "l[y].v", Before: "1", After: "2"},
				{Path: "l[z]", After: `{"name":"z"}`},
			},
		},
		"a member in between": {
			`{"l": [1, 2, 3]}`, `{"l": [1, 9, 2, 3]}`, []page.FieldChange{{Path: "l[1]", After: "9"}},
		},
		"two of one name": {
			`{"l": [{"name": "x"}, {"name": "x", "v": 1}]}`, `{"l": [{"name": "x"}, {"name": "x", "v": 2}]}`,
			[]page.FieldChange{{Path: "l[1].v", Before: "1", After: "2"}},
		},
		"another type": {`{"a": {"b": 1}}`, `{"a": 1}`, []page.FieldChange{{Path: "a", Before: `{"b":1}`, After: "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Texts(c.before, c.after))
		})
	}
	require.Empty(t, Texts("{", "{}"))
	require.Contains(t, valueText(strings.Repeat("x", 1000)), "… (1002 bytes)")
}
