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

// NewAPI returns an API with a client of its own, so that the limit holds for statuses alone.
func NewAPI(config *rest.Config) (API, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = requestsPerSecond, burst
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	client, err := rest.UnversionedRESTClientFor(c)
	return API{client}, err
}

// pageSize is how many objects are listed at a time: their specs may be large.
const pageSize = 100

// list calls each for all objects of a kind.
func (a API) list(ctx context.Context, kind kinds.Kind, each func(*liveObject)) error {
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
			Items []liveObject `json:"items"`
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
	raw, err := rawOf(a.client.Get().AbsPath(pathOf(k)...).Do(ctx))
	if err != nil {
		return nil, err
	}
	l := &liveObject{}
	return l, json.Unmarshal(raw, l)
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
	r := kinds.WithStatusOf(k.Kind).GroupVersionResource()
	return []string{"apis", r.Group, r.Version, "namespaces", k.Namespace, r.Resource, k.Name}
}
