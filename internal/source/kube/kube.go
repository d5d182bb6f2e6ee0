package kube

import (
	"context"
	"hash/maphash"
	"log/slog"

	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/selected"
)

// Options say what to read.
type Options struct {
	// Config says how to reach the API server.
	Config *rest.Config
	// RootNamespace is the namespace of the mesh configuration, "istio-system".
	RootNamespace string
	// ConfigMap is the name of the mesh configuration, "istio" or "istio-<revision>".
	ConfigMap string
	// Revision is that of this control plane. An Istio object with the label istio.io/rev is read
	// only if it names this revision or one of its tags. Objects without the label are for every
	// revision.
	Revision string
	// SecretNamespaces are the only namespaces of which Secrets are read, each by a watch of its
	// own; empty for all that are selected. The rights may then be those of Roles.
	SecretNamespaces []string
	// Cluster names the cluster in metrics, "Kubernetes".
	Cluster string
	Metrics *observe.Source
	// Logger gets what is read. What is wrong goes into reports. Nil means slog.Default.
	Logger *slog.Logger
}

// Source is an API server. It implements source.Source and runs once.
type Source struct {
	o            Options
	client       *client
	seed         maphash.Seed
	base         []*resource // watched whatever the discovery selectors say
	selectable   []*resource
	fingerprints *allFingerprints
	references   *references
	health       *health
	crds         *crdEvents
	scope        *scope
	tags         *tags
	sink         source.Sink
	synced       bool                 // used by Run alone
	reads        revisions            // of the watchers that Run starts; used by Run alone
	changes      chan []source.Change // of namespaces and the mesh configuration, unbuffered
	listed       chan struct{}        // latest-value: a watchSet has delivered its first lists
	ended        chan struct{}
}

// New returns a source that connects to nothing before it runs. It fails on a bad configuration.
func New(o Options) (*Source, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	all := resources(&o)
	c, err := newClient(o.Config, all)
	if err != nil {
		return nil, err
	}
	s := &Source{
		o:            o,
		client:       c,
		seed:         maphash.MakeSeed(),
		fingerprints: newAllFingerprints(),
		crds:         newCRDEvents(),
		scope:        newScope(),
		tags:         newTags(o.Revision),
		changes:      make(chan []source.Change),
		listed:       make(chan struct{}, 1),
		ended:        make(chan struct{}),
	}
	s.tags.changed = s.notifyListed
	s.references = newReferences(s)
	s.health = newHealth(o.Config.Host, s.send)
	s.base = append(s.base, definitions(), tagWebhooks(), tagServices(o.RootNamespace))
	for _, r := range all {
		s.fingerprints.add(r)
		if r.selectable() {
			s.selectable = append(s.selectable, r)
		} else {
			s.base = append(s.base, r)
		}
	}
	return s, nil
}

// Run implements source.Source. The error is nil: what cannot be read is reported, and read when it
// can be.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	s.sink = sink
	s.reads = s.tags.revisions()
	ctx, cancel := context.WithCancel(ctx)
	base := s.start(ctx, "", nil, s.base)
	p := &planner{source: s, own: map[string]*watchSet{}}
	defer func() {
		cancel()
		close(s.ended)
		p.stop()
		s.references.stop()
		base.stop()
		s.client.http.CloseIdleConnections()
	}()
	in := selected.NewSelection()
	planned := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case changes := <-s.changes:
			for _, c := range changes {
				if r := in.Take(c); r != nil {
					s.send(source.Event{Reports: []source.Report{*r}})
				}
			}
			planned = false
		case <-s.listed:
		}
		if base.listed() && s.takeTags() {
			base = s.reread(ctx, base)
			p.reread(ctx)
		}
		if base.listed() && !planned {
			s.scope.set(in.Selectors())
			p.apply(ctx, in.Namespaces())
			planned = true
		}
		listed := planned && base.delivered() && p.delivered() // what that has named is known
		s.references.apply(ctx)
		if !s.synced && listed && s.references.delivered() {
			s.synced = true
			s.sink(source.Event{Synced: true})
			s.o.Logger.Info("the state of the cluster is read", "server", s.o.Config.Host)
		}
	}
}

// meshKey names the ConfigMap with the mesh configuration.
func (s *Source) meshKey() source.Key {
	return source.Key{Kind: kinds.ConfigMap, Namespace: s.o.RootNamespace, Name: s.o.ConfigMap}
}

// forwardSelection passes on the changes that decide which namespaces are watched.
func (s *Source) forwardSelection(delivered []source.Change) {
	var changes []source.Change
	for _, c := range delivered {
		if c.Key.Kind == kinds.Namespace || c.Key == s.meshKey() {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return
	}
	select {
	case s.changes <- changes:
	case <-s.ended:
	}
}

// notifyListed tells Run that a watchSet has delivered its first lists.
func (s *Source) notifyListed() {
	select {
	case s.listed <- struct{}{}:
	default:
	}
}

// send delivers an event unless it is empty.
func (s *Source) send(e source.Event) {
	if len(e.Changes)+len(e.Reports) > 0 {
		s.sink(e)
	}
}
