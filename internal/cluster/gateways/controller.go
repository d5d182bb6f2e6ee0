package gateways

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// How often a Gateway that does not change is applied again, so that what somebody has deleted or
// changed comes back. ConfigMaps with parameters are not watched, for which it would take the right
// to list all ConfigMaps: they are read again more often. Nothing is written where all is as it
// should be.
const (
	resync           = 5 * time.Minute
	parametersResync = 30 * time.Second
)

// The shortest and the longest backoff of a Gateway.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

const (
	// workers is how many Gateways are handled at a time. Further ones wait in the queue.
	workers = 4
	// requestTimeout bounds each request, so that an API server that hangs holds no worker.
	requestTimeout = 10 * time.Second
)

// Render gives the Pod of a Deployment its proxy. Both Pods are JSON.
type Render func(pod []byte, namespace, deployment string) ([]byte, error)

// Options are what a Controller needs.
type Options struct {
	Deployments *Deployments
	API         rest.Interface
	// RootNamespace has the ConfigMaps with the parameters of all Gateways of a class.
	RootNamespace string
	Revision      string // the control plane's own; empty stands for "default"
	// RevisionOf returns what tells the revision that a Gateway or its namespace names, since it
	// may name a tag, and a channel that is closed when tags change. Nil: there are no tags.
	RevisionOf func() (revisionOf func(string) string, changed <-chan struct{})
	Render     Render
	// Report gets what keeps a Gateway from being deployed; a condition without a reason stands for
	// nothing. It reports whether that is new, and must not block.
	Report  func(source.Key, model.Condition) bool
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// NewAPI returns a client with limits of its own.
func NewAPI(config *rest.Config) (rest.Interface, error) {
	c := rest.CopyConfig(config)
	c.QPS, c.Burst = 20, 40
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	return rest.UnversionedRESTClientFor(c)
}

// Controller applies the objects of Gateways until they are as Deployments has them.
type Controller struct {
	Options
	// queue holds each Gateway once, however often it changes.
	queue workqueue.TypedRateLimitingInterface[source.Key]
}

// NewController returns a Controller for one term as the leader.
func NewController(o Options) *Controller { return &Controller{Options: o} }

// Run applies until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[source.Key](minRetry, maxRetry),
	)
	_, changed := c.revisionOf()
	for _, k := range c.Deployments.listen(c.queue.Add) {
		c.queue.Add(k)
	}
	defer c.Deployments.listen(nil)
	context.AfterFunc(ctx, c.queue.ShutDown)
	var working sync.WaitGroup
	working.Go(func() { c.followTags(ctx, changed) })
	for range workers {
		working.Go(func() { c.work(ctx) })
	}
	working.Wait()
}

func (c *Controller) work(ctx context.Context) {
	for {
		k, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.handle(ctx, k)
		c.queue.Done(k)
	}
}

// handle applies the objects of one Gateway. What goes with a Gateway, the garbage collector
// removes.
func (c *Controller) handle(ctx context.Context, k source.Key) {
	wanted := c.Deployments.get(k)
	if wanted == nil || !c.deploys(wanted) {
		c.queue.Forget(k)
		c.Report(k, model.Condition{})
		return
	}
	err := c.deploy(ctx, wanted)
	if ctx.Err() != nil {
		return
	}
	isNew := c.Report(k, conditionOf(err))
	switch {
	case err != nil:
		if isNew {
			c.Log.Warn("a Gateway cannot be deployed", "gateway", k.String(), "error", err)
		}
		c.queue.AddRateLimited(k)
		return
	case wanted.Parameters != "" || wanted.ClassParameters != model.ObjectName{}:
		c.queue.AddAfter(k, parametersResync)
	default:
		c.queue.AddAfter(k, resync)
	}
	c.queue.Forget(k)
}

// followTags looks at all Gateways again when a tag changes. Of two revisions that a tag moves
// between, the one that it leaves ceases to write, and the objects stay until the other one applies
// them.
func (c *Controller) followTags(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		_, changed = c.revisionOf()
		for _, k := range c.Deployments.all() {
			c.queue.Add(k)
		}
	}
}

// deploys reports whether this control plane is the one for a Gateway: the one that the Gateway or
// its namespace names, by its revision or by a tag, or the default one.
func (c *Controller) deploys(d *model.GatewayDeployment) bool {
	named := func(revision string) string {
		if revision == "" {
			return "default"
		}
		return revision
	}
	revisionOf, _ := c.revisionOf()
	return revisionOf(named(d.Revision)) == named(c.Revision)
}

// revisionOf is RevisionOf, also where there are no tags.
func (c *Controller) revisionOf() (revisionOf func(string) string, changed <-chan struct{}) {
	if c.RevisionOf == nil {
		return func(name string) string { return name }, nil
	}
	return c.RevisionOf()
}

// deploy applies each object of a Gateway, whatever becomes of the others.
func (c *Controller) deploy(ctx context.Context, d *model.GatewayDeployment) error {
	overlays, err := c.parameters(ctx, d)
	if err != nil {
		return err
	}
	var failures []error
	noAccount := false
	for _, o := range objectsOf(d, overlays, c.Render) {
		err := o.err
		switch {
		case o.kind == deploymentKind && noAccount:
			err = errNoAccount
		case err == nil:
			var result string
			if result, err = c.apply(ctx, d, o); result != "" {
				c.Metrics.Status.Deployments.WithLabelValues(result).Inc()
			}
		default:
			c.Metrics.Status.Deployments.WithLabelValues(failed).Inc()
		}
		noAccount = noAccount || o.kind == accountKind && err != nil && !errors.Is(err, errIstiods)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s %s: %w", o.kind, d.Name, err))
		}
	}
	return errors.Join(failures...)
}

// errNoAccount keeps Pods from running as an account that is not the Gateway's. Who may create a
// Gateway would choose among the accounts of the namespace by its name.
var errNoAccount = errors.New("it is not applied while its ServiceAccount is not the Gateway's own")

// The reasons of the condition of a Gateway that is not deployed as it says.
const (
	reasonParameters = "InvalidParameters" // of the specification
	reasonForeign    = "ManagedElsewhere"
	reasonFailed     = "DeploymentFailed"
)

func conditionOf(err error) model.Condition {
	if err == nil {
		return model.Condition{}
	}
	c := model.Condition{Reason: reasonFailed, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
	var invalid *parametersError
	switch {
	case errors.As(err, &invalid):
		c.Reason = reasonParameters
	case errors.Is(err, errForeign):
		c.Reason = reasonForeign
	}
	return c
}
