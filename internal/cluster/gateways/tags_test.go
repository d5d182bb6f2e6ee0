package gateways

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// movingTag is a tag that stands for one revision after the other.
type movingTag struct {
	mu       sync.Mutex
	revision string
	changed  chan struct{}
}

func (m *movingTag) revisionOf() (func(string) string, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	revision := m.revision
	return func(name string) string {
		if name == "prod" {
			return revision
		}
		return name
	}, m.changed
}

func (m *movingTag) move(revision string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = revision
	close(m.changed)
	m.changed = make(chan struct{})
}

// unanswered is an API server that does not answer.
type unanswered struct{}

func (unanswered) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nobody is there")
}

// TestAMovedTagMovesItsGateways: the revision that a tag comes to deploys them, without any change
// of theirs, and the one that it leaves ceases to.
func TestAMovedTagMovesItsGateways(t *testing.T) {
	tag := &movingTag{revision: "v1", changed: make(chan struct{})}
	wanted := NewDeployments()
	key := source.Key{Kind: kinds.KubernetesGateway, Namespace: "shop", Name: "web"}
	wanted.Compiled(key, &model.GatewayDeployment{
		Gateway:        model.Meta{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name},
		Infrastructure: model.Infrastructure{Revision: "prod"},
	})
	reported := make(chan model.Condition, 100)
	api, err := NewAPI(&rest.Config{Transport: unanswered{}})
	require.NoError(t, err)
	c := NewController(Options{
		API: api, Deployments: wanted, Revision: "v2", RevisionOf: tag.revisionOf,
		Render: func([]byte, string, string) ([]byte, error) {
			return nil, errors.New("nothing is applied in this test")
		},
		Report:  func(_ source.Key, c model.Condition) bool { reported <- c; return true },
		Metrics: observe.New(observe.Build{Now: time.Now}), Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	defer running.Wait()
	defer cancel()
	require.Empty(t, (<-reported).Reason, "it is another revision's")
	tag.move("v2")
	for (<-reported).Reason == "" {
		t.Log("looked at before the tag moved")
	}
	tag.move("v1")
	for (<-reported).Reason != "" {
		t.Log("looked at before the tag moved back")
	}
}
