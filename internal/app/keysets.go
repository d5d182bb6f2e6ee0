package app

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/trust/keysets"
)

// keySets fetches the keys of token issuers. What is fetched comes back to the loop as the
// content of a ConfigMap: from the API server, where this process serves a cluster and writes to
// it, and directly anywhere else.
type keySets struct {
	fetcher *keysets.Fetcher
	keeper  *keysets.Keeper
	key     source.Key // of the ConfigMap
}

func newKeySets(o Options, p *Pipeline, converter *convert.Converter) *keySets {
	k := &keySets{
		fetcher: keysets.NewFetcher(keysets.FetcherOptions{
			Private: o.Config.KeyNetworks, Blocked: o.Config.BlockedKeyNetworks, IsDiscovery: model.IsDiscovery,
		}),
		key: converter.KeySetsKey(),
	}
	k.keeper = keysets.NewKeeper(keysets.Options{
		Fetch: k.fetcher.Fetch, Refresh: o.Config.KeyRefresh, Root: k.key.Namespace,
		Metrics: &p.metrics.Keys, Log: o.Log,
	})
	return k
}

// run fetches until ctx ends.
func (k *keySets) run(ctx context.Context, deliver func(context.Context, []jwks.Entry) error) {
	defer k.fetcher.Close()
	k.keeper.Run(ctx, deliver)
}

// into returns what delivers to a sink.
func (k *keySets) into(sink source.Sink) func(context.Context, []jwks.Entry) error {
	return func(_ context.Context, entries []jwks.Entry) error {
		sink(source.Event{Changes: []source.Change{{
			Key: k.key,
			Object: &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: k.key.Namespace, Name: k.key.Name}, Data: jwks.Encode(entries),
			},
			ObservedAt: time.Now(),
		}}})
		return nil
	}
}

// demandsOf returns what a step changes in the sets of keys that the mesh wants. The cost follows
// the step. The oldest policy that names a set says how long fetching it may take.
func demandsOf(snap *state.Snapshot, d *state.Delta) []keysets.Demand {
	var touched []string
	names := map[string][]keysets.Naming{}
	note := func(a *model.RequestAuthentication, more int) {
		if a == nil {
			return
		}
		for _, uri := range a.KeySets() {
			touched = append(touched, uri)
			names[uri] = append(names[uri], keysets.Naming{Namespace: a.Namespace, More: more})
		}
	}
	for _, p := range d.RequestAuthentications {
		note(p.New, 1)
		note(p.Old, -1)
	}
	for _, p := range d.KeySets {
		touched = append(touched, p.Either().URI)
	}
	slices.Sort(touched)
	var demands []keysets.Demand
	for _, uri := range slices.Compact(touched) {
		demand := demandOf(snap, uri)
		demand.Names = names[uri]
		demands = append(demands, demand)
	}
	return demands
}

func demandOf(snap *state.Snapshot, uri string) keysets.Demand {
	out := keysets.Demand{URI: uri}
	for a := range snap.RequestAuthenticationsWith(uri) {
		i := slices.IndexFunc(a.Rules, func(r *model.TokenRule) bool { return r.KeysFrom == uri })
		out.Wanted, out.Timeout = true, a.Rules[i].FetchTimeout
		break
	}
	if set := snap.KeySet(uri); set != nil {
		out.Known = &jwks.Entry{URI: set.URI, Keys: set.Keys, Error: set.Error}
	}
	return out
}
