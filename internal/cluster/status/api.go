package status

import (
	"context"
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// The limit on requests, of which each status takes two.
const (
	requestsPerSecond = 20
	burst             = 40
)

// fieldManager is the writer of a status that the API server records.
const fieldManager = "lateen"

// API reads and writes statuses.
type API struct{ client rest.Interface }

// attachmentFactor is how much higher the limit is for statuses of the Gateway API: each route has
// one, and people wait for it. It allows 80 statuses a second, as many as istiod's client writes.
const attachmentFactor = 8

// NewAPI returns an API with a client of its own, so that the limit holds for statuses alone.
func NewAPI(config *rest.Config) (API, error) { return newAPI(config, 1) }

// NewAttachmentAPI returns an API for the statuses of the Gateway API, with a limit of its own.
func NewAttachmentAPI(config *rest.Config) (API, error) { return newAPI(config, attachmentFactor) }

func newAPI(config *rest.Config, factor int) (API, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = float32(requestsPerSecond*factor), burst*factor
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	client, err := rest.UnversionedRESTClientFor(c)
	return API{client}, err
}

// pageSize is how many objects are listed at a time: their specs may be large.
const pageSize = 100

// list calls each for all objects of a kind.
func (a API) list(ctx context.Context, kind kinds.Kind, each func(*liveObject)) error {
	return listOf(ctx, a, kind, each)
}

// listOf is list for another type of objects.
func listOf[T any](ctx context.Context, a API, kind kinds.Kind, each func(*T)) error {
	r := kinds.WithStatusOf(kind).GroupVersionResource()
	for next := ""; ; {
		raw, err := rawOf(a.client.Get().AbsPath("apis", r.Group, r.Version, r.Resource).
			Param("limit", strconv.Itoa(pageSize)).Param("continue", next).Do(ctx))
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		for i := range page.Items {
			each(&page.Items[i])
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}

func (a API) get(ctx context.Context, k source.Key) (*liveObject, error) {
	l := &liveObject{}
	return l, a.read(ctx, k, l)
}

// read reads an object into a struct with the fields that are wanted.
func (a API) read(ctx context.Context, k source.Key, into any) error {
	raw, err := rawOf(a.client.Get().AbsPath(pathOf(k)...).Do(ctx))
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// rawOf returns the body of an answer, or the API server's error. The error of Raw alone says
// "unknown".
func rawOf(r rest.Result) ([]byte, error) {
	raw, err := r.Raw()
	if err != nil {
		return nil, r.Error()
	}
	return raw, nil
}

func (a API) patch(ctx context.Context, k source.Key, body []byte) error {
	return a.client.Patch(types.MergePatchType).AbsPath(append(pathOf(k), "status")...).
		Param("fieldManager", fieldManager).Body(body).Do(ctx).Error()
}

func pathOf(k source.Key) []string {
	d := kinds.WithStatusOf(k.Kind)
	r := d.GroupVersionResource()
	if d.ClusterScoped {
		return []string{"apis", r.Group, r.Version, r.Resource, k.Name}
	}
	return []string{"apis", r.Group, r.Version, "namespaces", k.Namespace, r.Resource, k.Name}
}
