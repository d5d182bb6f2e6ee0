package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// translationCache is what units make their resources with: the translations, and the interners of
// the lists in their inputs. All classes share it. One goroutine uses it at a time.
type translationCache struct {
	*emitter
	translations
	interners
	groups      *groups
	authFilters *authFilterCache
	patches     *patchCache
	mesh        *meshParts
	pods        podNames

	preferZone, preferNode *model.LocalityLB  // what a Service's trafficDistribution means
	blackHole              *resource.Resource // the cluster BlackHoleCluster, which has no input
	counts                 *Work              // nil unless tests count
	problems               *source.Tally      // the problems that stand, by how many classes see them
}

// interners make lists and values in inputs canonical, so that inputs compare with ==.
type interners struct {
	domains      *model.Interner[string]
	refs         *model.Interner[route.RouteRef]
	facts        *model.Interner[route.DestinationFact]
	lookedUpAt   *model.Interner[cluster.Lookup]
	lookupGroups *model.Interner[cluster.LookupGroup]
	chains       *model.Interner[listener.Chain]
	targets      *model.Interner[listener.WeightedTarget]
	ports        *model.Interner[listener.InboundPort]
	undeclared   *model.Interner[listener.UndeclaredPort]
	services     *model.Interner[cluster.NamedService]
	serverChains *model.Interner[listener.ServerChain]
	identities   *model.Interner[string] // that the endpoints of a service may prove
	labels       *model.Interner[string] // labels that tell proxies and endpoints apart
	addresses    *model.Interner[string] // that names stand for
	tablePorts   *model.Interner[uint16] // of gateways' route tables
	retries      *model.Pool[model.Retries]
	common       *model.Pool[listener.Common]
}

func newInterners() interners {
	return interners{
		domains:      model.NewInterner[string](),
		refs:         model.NewInterner[route.RouteRef](),
		facts:        model.NewInterner[route.DestinationFact](),
		lookedUpAt:   model.NewInterner[cluster.Lookup](),
		lookupGroups: model.NewInterner[cluster.LookupGroup](),
		chains:       model.NewInterner[listener.Chain](),
		targets:      model.NewInterner[listener.WeightedTarget](),
		ports:        model.NewInterner[listener.InboundPort](),
		undeclared:   model.NewInterner[listener.UndeclaredPort](),
		services:     model.NewInterner[cluster.NamedService](),
		serverChains: model.NewInterner[listener.ServerChain](),
		identities:   model.NewInterner[string](),
		labels:       model.NewInterner[string](),
		addresses:    model.NewInterner[string](),
		tablePorts:   model.NewInterner[uint16](),
		retries:      model.NewPool[model.Retries](),
		common:       model.NewPool[listener.Common](),
	}
}

func newTranslationCache(store *resource.Store, refusals Refusals) *translationCache {
	e := newEmitter(store, refusals)
	tc := &translationCache{
		emitter:      e,
		translations: declareTranslations(e),
		interners:    newInterners(),
		groups:       newGroups(e),
		authFilters:  newAuthFilterCache(),
		patches:      newPatchCache(),
		pods:         podNames{known: map[*state.EndpointSet]map[string][]string{}},
		problems:     source.NewTally(),
	}
	tc.preferZone = prefersClose(model.RegionLabel, model.ZoneLabel, model.SubzoneLabel)
	tc.preferNode = prefersClose(model.RegionLabel, model.ZoneLabel, model.SubzoneLabel, model.HostnameLabel)
	tc.blackHole = e.emit(made{name: cluster.BlackHoleName, message: cluster.BlackHole()}, patched{}).Resource
	tc.assignments.onMiss = tc.groups.recordAssignment
	return tc
}

// fork returns a cache for a fork of what is compiled. Translations are the same for all, so it
// shares them. What depends on a generation it has for itself: the groups of endpoints, the
// assignments that are made of them, and the problems that stand.
func (tc *translationCache) fork() *translationCache {
	f := *tc
	f.groups, f.problems = tc.groups.fork(), tc.problems.Fork()
	f.assignments = tc.assignments.fork(f.groups.recordAssignment)
	return &f
}

// meshPartsOf caches the canonical parts of a mesh configuration, which hardly ever changes.
func (tc *translationCache) meshPartsOf(m *model.MeshConfig) *meshParts {
	if tc.mesh == nil || tc.mesh.config != m {
		tc.mesh = &meshParts{
			config:  m,
			retries: tc.retries.Canonical(m.Retries),
			pool:    tc.common,
			common:  map[commonKey]*listener.Common{},
		}
	}
	return tc.mesh
}

// meshParts are the parts of a mesh configuration that stand in inputs.
type meshParts struct {
	config  *model.MeshConfig
	retries *model.Retries
	pool    *model.Pool[listener.Common]
	common  map[commonKey]*listener.Common
}

// stats returns what each kind of translation did.
func (tc *translationCache) stats() map[string]TranslateStats {
	all := map[string]TranslateStats{}
	for kind, m := range tc.memos {
		all[kind] = m.counts()
	}
	return all
}

// size returns how many translations are remembered.
func (tc *translationCache) size() int {
	total := 0
	for _, m := range tc.memos {
		total += m.len()
	}
	return total
}

// sweep forgets all translations whose resources are not live, and the groups of endpoints that
// nothing else holds.
func (tc *translationCache) sweep(live *resource.Live, held map[*groupList]bool) {
	for _, m := range tc.memos {
		m.sweep(live)
	}
	tc.groups.sweep(tc.assignments.results.All(), held)
	tc.authFilters.sweep()
	tc.patches.sweep()
}
