package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/history"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// pastPages answer questions about what was.
type pastPages struct{ p *Pipeline }

// Select implements admin.History.
func (a pastPages) Select(q page.HistoryQuestion) (*page.History, error) {
	query := history.Query{
		Since: q.Since, Until: q.Until, Resource: q.Resource, Limit: q.Limit,
		Object: keyOf(q.Object),
	}
	out := &page.History{Generations: []page.Generation{}}
	var has resource.State
	if q.Proxy != "" {
		c, err := a.client(q.Proxy)
		if err != nil {
			return nil, err
		}
		query.Proxy, query.Class, out.Connected, has = q.Proxy, c.Class, c.ConnectedAt, c.State
	}
	if err := a.flush(); err != nil {
		return nil, err
	}
	if out.Missing = a.p.past.store.IsMissing(); out.Missing && q.Proxy != "" {
		return nil, history.ErrMissing
	}
	generations, since := a.p.past.store.Select(query)
	out.Generations, out.Since = append(out.Generations, generations...), since
	if len(generations) == 0 && q.Proxy != "" && q.Resource != "" && !hasNamed(has, q.Resource) {
		return nil, fmt.Errorf("%s has no resource %.200q, and had none since %s: "+
			"want a name as lateen proxy-config shows it", q.Proxy, q.Resource, since.Format(time.RFC3339))
	}
	return out, nil
}

// hasNamed tells whether a state has a resource of a name, which may lack a virtual host's table.
func hasNamed(s resource.State, name string) bool {
	for t := range resource.NumTypes {
		if s.Set(t).Get(name) != nil {
			return true
		}
	}
	return slices.ContainsFunc(s.Set(resource.VirtualHost).Names(), func(n string) bool {
		return strings.HasSuffix(n, "/"+name)
	})
}

func keyOf(o page.ObjectQuestion) source.Key {
	return source.Key{Kind: kinds.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
}

// client returns the connected proxy of a name, "name.namespace": of several streams the latest.
func (a pastPages) client(name string) (found serve.Client, err error) {
	err = fmt.Errorf("no proxy %.200q is connected to this replica", name)
	for _, c := range a.p.Clients() {
		if c.Node.Name == name && (err != nil || c.ConnectedAt.After(found.ConnectedAt)) {
			found, err = c, nil
		}
	}
	return found, err
}

// StateAt implements admin.History.
func (a pastPages) StateAt(c serve.Client, at time.Time) (was resource.State, forgotten []string, err error) {
	if err := a.flush(); err != nil {
		return was, nil, err
	}
	return a.p.past.store.At(proxyOf(c), at)
}

func proxyOf(c serve.Client) history.Proxy {
	return history.Proxy{Name: c.Node.Name, Class: c.Class, State: c.State}
}

// Difference implements admin.History.
func (a pastPages) Difference(q page.DiffQuestion) (*page.ConfigDiff, error) {
	c, err := a.client(q.Proxy)
	if err != nil {
		return nil, err
	}
	out := &page.ConfigDiff{From: q.From, To: q.To}
	to := c.State
	if q.To.IsZero() {
		out.To = time.Now()
	} else if to, out.Forgotten, err = a.StateAt(c, q.To); err != nil {
		return nil, err
	}
	from, forgotten, err := a.StateAt(c, q.From)
	if err != nil {
		return nil, err
	}
	out.Forgotten = append(out.Forgotten, forgotten...)
	slices.Sort(out.Forgotten)
	out.Forgotten = slices.Compact(out.Forgotten)
	out.PlannedEffect = plannedEffect(&compile.Effect{
		Proxy: c.Node.Pod, Namespace: c.Node.Namespace, Proxies: 1, Changes: compile.Differences(from, to),
	})
	for i := range out.Changes {
		if c := &out.Changes[i]; slices.Contains(out.Forgotten, c.Type+" "+c.Name) {
			c.Fields, c.Left = nil, 0 // nobody knows them
		}
	}
	return out, nil
}

// Restoration implements admin.History.
func (a pastPages) Restoration(q page.HistoryQuestion) (*page.Restoration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	earlier, err := a.p.past.recorder.Restore(ctx, q.Since, keyOf(q.Object))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, admin.ErrNotNow
	}
	return earlier, err
}

// flushLimit is how long an answer waits until what is published is remembered.
const flushLimit = time.Second

// flush waits until what is published is remembered: a proxy's present state is no newer then.
func (a pastPages) flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	if a.p.past.recorder.Flush(ctx) != nil {
		return admin.ErrNotNow
	}
	return nil
}

// Cost implements admin.History.
func (a pastPages) Cost(q page.CostQuestion) (*page.Cost, error) {
	if err := a.flush(); err != nil {
		return nil, err
	}
	return a.p.past.store.Cost(q.Since, q.By), nil
}

// Blame implements admin.History.
func (a pastPages) Blame(q page.BlameQuestion) (*page.Blame, error) {
	c, err := a.client(q.Proxy)
	if err != nil {
		return nil, err
	}
	typ, err := typeNamed(q.Type)
	if err != nil {
		return nil, err
	}
	name, err := resourceNamed(c.State.Set(typ), q)
	if err != nil {
		return nil, err
	}
	if err := a.flush(); err != nil {
		return nil, err
	}
	forms, since, err := a.p.past.store.Forms(proxyOf(c), typ, name)
	if err != nil {
		return nil, err
	}
	out := blameOf(typ, forms)
	out.Type, out.Name = typ.String(), name
	if out.Since.IsZero() {
		out.Since = since
	}
	return out, nil
}

func typeNamed(short string) (resource.Type, error) {
	var all []string
	for t := range resource.NumTypes {
		if t.String() == short && t != resource.Secret {
			return t, nil
		}
		all = append(all, t.String())
	}
	return 0, fmt.Errorf("type = %.64q: want one of %s", short, strings.Join(all, ", "))
}

// shownNames is how many names an error lists.
const shownNames = 20

// resourceNamed returns the name of the one resource that a question may mean.
func resourceNamed(set *resource.Set, q page.BlameQuestion) (string, error) {
	switch names := history.Named(set, q.Name); {
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", fmt.Errorf("%s has no %s %.200q", q.Proxy, q.Type, q.Name)
	default:
		return "", fmt.Errorf("%.200q fits %d of %s: want one of %s", q.Name, len(names), q.Type,
			strings.Join(names[:min(len(names), shownNames)], ", "))
	}
}
