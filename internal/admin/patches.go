package admin

import (
	"fmt"
	"net/url"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// patches answers /debug/patchz?kind=EnvoyFilter&namespace=…&name=….
func (m *Mesh) patches(query url.Values) (any, error) {
	if m.Snapshot() == nil || m.Patches == nil {
		return nil, errNotReady
	}
	q := page.ObjectQuestionOf(query)
	out, err := m.Patches(q)
	switch {
	case err != nil:
		return nil, err
	case out == nil:
		return nil, fmt.Errorf("%s %s/%s %w, or not in force", q.Kind, q.Namespace, q.Name, errNotDescribed)
	}
	for _, p := range m.Problems() {
		if p.Object == out.Key() {
			out.Problems = append(out.Problems, p.String())
		}
	}
	return out, nil
}

// Render returns a resource as JSON in lines; empty for none, and for a secret. A proxy's own
// addresses stand in it as they are before it is sent.
func Render(t resource.Type, r *resource.Resource) string {
	if r == nil || t == resource.Secret {
		return ""
	}
	text, err := render(&anypb.Any{TypeUrl: t.URL(), Value: r.Body()})
	if err != nil {
		return fmt.Sprintf("cannot be shown: %v", err)
	}
	return string(text)
}
