package link

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const patience = 3 * time.Minute

// plane is a control plane at the other end of a relay. It holds the latest of all that it was
// delivered.
type plane struct {
	t      *testing.T
	tokens *local.Tokens
	source *Source
	ended  chan error
	stop   context.CancelFunc

	mu      sync.Mutex
	objects map[source.Key]metav1.Object
	reports map[string][]source.Problem
	synced  bool
	events  int
}

// connect starts one; what Settled answers is up to the test.
func connect(t *testing.T, r *Relay, settled func(context.Context, *plane) ([]string, error)) *plane {
	t.Helper()
	f, err := r.Connect()
	require.NoError(t, err)
	p := &plane{
		t:       t,
		tokens:  local.NewTokens(),
		ended:   make(chan error, 1),
		objects: map[source.Key]metav1.Object{},
		reports: map[string][]source.Problem{},
	}
	p.source, err = Open(f, p.tokens)
	require.NoError(t, err)
	p.source.Settled = func(ctx context.Context) ([]string, error) { return settled(ctx, p) }
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() { p.ended <- p.source.Run(ctx, p.take) }()
	t.Cleanup(stop)
	return p
}

func (p *plane) take(e source.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
	for _, c := range e.Changes {
		if c.Object == nil {
			delete(p.objects, c.Key)
		} else {
			p.objects[c.Key] = c.Object
		}
	}
	for _, r := range e.Reports {
		p.reports[r.Origin] = r.Problems
	}
	p.synced = p.synced || e.Synced
}

// names are those of the objects, as an answer of Settled: it proves what was there when it was
// asked.
func names(_ context.Context, p *plane) (names []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.objects {
		names = append(names, k.Name)
	}
	return names, nil
}

func newRelay(t *testing.T, news func(json.RawMessage)) (*Relay, *local.Tokens) {
	tokens := local.NewTokens()
	r := NewRelay(tokens, news, slog.New(slog.DiscardHandler))
	t.Cleanup(r.Close)
	return r, tokens
}

func settle(t *testing.T, r *Relay) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	proxies, err := r.Settled(ctx)
	require.NoError(t, err)
	return proxies
}

func namespace(name string) source.Change {
	return source.Change{
		Key:    source.Key{Kind: kinds.Namespace, Name: name},
		Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
	}
}

func deleted(name string) source.Change {
	return source.Change{Key: source.Key{Kind: kinds.Namespace, Name: name}}
}

func deliver(r *Relay, changes ...source.Change) { r.Deliver(source.Event{Changes: changes}) }

func TestADeliveryIsThereBeforeTheAnswerToALaterQuestion(t *testing.T) {
	r, _ := newRelay(t, nil)
	connect(t, r, names)
	for range 100 {
		deliver(r, namespace("a"))
		require.Equal(t, []string{"a"}, settle(t, r))
		deliver(r, namespace("b"), deleted("a"))
		require.Equal(t, []string{"b"}, settle(t, r))
		deliver(r, deleted("b"))
		require.Empty(t, settle(t, r))
	}
}

func TestTheNextControlPlaneStartsFromAllThatThereIs(t *testing.T) {
	r, _ := newRelay(t, nil)
	broken := source.Report{Origin: "a.yaml", Problems: []source.Problem{{Severity: source.Error, Message: "broken"}}}
	r.Deliver(source.Event{
		Changes: []source.Change{namespace("a"), namespace("b")},
		Reports: []source.Report{broken},
		Synced:  true,
	})
	first := connect(t, r, names)
	require.ElementsMatch(t, []string{"a", "b"}, settle(t, r))
	first.stop()
	require.NoError(t, <-first.ended, "it was asked to end")

	deliver(r, deleted("a"), namespace("c"))
	r.Deliver(source.Event{Reports: []source.Report{{Origin: "a.yaml"}}})
	second := connect(t, r, names)
	require.ElementsMatch(t, []string{"b", "c"}, settle(t, r))
	second.mu.Lock()
	defer second.mu.Unlock()
	require.True(t, second.synced)
	require.Equal(t, 1, second.events, "what there is comes at once")
	require.Empty(t, second.reports)
}

func TestAQuestionOutlivesTheControlPlaneThatWasAsked(t *testing.T) {
	r, _ := newRelay(t, nil)
	deliver(r, namespace("a"))
	asked := make(chan struct{})
	first := connect(t, r, func(ctx context.Context, _ *plane) ([]string, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	answer := make(chan []string, 1)
	go func() { answer <- settle(t, r) }()
	<-asked
	first.stop() // it dies over it
	require.NoError(t, <-first.ended)
	require.Empty(t, answer)
	connect(t, r, names)
	require.Equal(t, []string{"a"}, <-answer)

	_, err := func() ([]string, error) {
		r, _ := newRelay(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return r.Settled(ctx)
	}()
	require.ErrorIs(t, err, context.Canceled, "nobody is there to answer")
}

func TestAnErrorIsAnAnswer(t *testing.T) {
	r, _ := newRelay(t, nil)
	connect(t, r, func(context.Context, *plane) ([]string, error) { return nil, errors.New("no") })
	_, err := r.Settled(t.Context())
	require.EqualError(t, err, "no")
}

func TestNewsArriveInOrder(t *testing.T) {
	var got []string
	done := make(chan struct{})
	r, _ := newRelay(t, func(m json.RawMessage) {
		if got = append(got, string(m)); len(got) == 3 {
			close(done)
		}
	})
	p := connect(t, r, names)
	for _, n := range []any{1, "two", map[string]int{"three": 3}} {
		require.NoError(t, p.source.Send(n))
	}
	<-done
	require.Equal(t, []string{"1", `"two"`, `{"three":3}`}, got)
}

func TestTheEndOfTheMeshEndsTheSource(t *testing.T) {
	r, _ := newRelay(t, nil)
	p := connect(t, r, names)
	settle(t, r)
	r.Close()
	require.ErrorIs(t, <-p.ended, ErrEnded)
	_, err := r.Connect()
	require.Error(t, err)
}

// TestTokens: what crosses the line is good for verifying a token, and is not the token.
func TestTokens(t *testing.T) {
	known := func(id string) map[local.TokenHash]local.Identity {
		return map[local.TokenHash]local.Identity{{1}: {Namespace: "default", ServiceAccount: id, Pod: id + "-1"}}
	}
	r, tokens := newRelay(t, nil)
	p := connect(t, r, names)
	for _, want := range []map[local.TokenHash]local.Identity{known("web"), known("db"), {}} {
		tokens.Learn(want)
		deliver(r, namespace("a"))
		settle(t, r)
		got, _ := p.tokens.Known()
		require.Equal(t, want, got)
	}
}

// TestObjectsAreTheSameAtTheOtherEnd sends the example, which has most kinds.
func TestObjectsAreTheSameAtTheOtherEnd(t *testing.T) {
	r, _ := newRelay(t, nil)
	p := connect(t, r, names)
	var sent []source.Change
	files, err := filepath.Glob("../../../examples/bookinfo/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		documents, problems := manifest.Read(file, content)
		require.Empty(t, problems)
		for _, d := range documents {
			sent = append(sent, source.Change{Key: d.Key, Object: d.Object, Origin: d.Origin})
		}
	}
	require.Greater(t, len(sent), 10)
	deliver(r, sent...)
	settle(t, r)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range sent {
		// What an object is the key tells. API servers leave it out of objects, too.
		require.Empty(t, cmp.Diff(c.Object, p.objects[c.Key], protocmp.Transform(),
			cmpopts.IgnoreTypes(metav1.TypeMeta{})), c.Key)
	}
}

// A delivery is decoded where the one before was: nothing of that stays, and what was made of it
// does not change.
func TestWhatFollowsChangesNothingThatWasDelivered(t *testing.T) {
	r, _ := newRelay(t, nil)
	p := connect(t, r, names)
	secret := source.Change{
		Key: source.Key{Kind: kinds.Secret, Namespace: "b", Name: "b"},
		Object: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "b"},
			Data:       map[string][]byte{"b": []byte("bbbb")},
		},
	}
	deliver(r, namespace("a"), secret)
	require.ElementsMatch(t, []string{"a", "b"}, settle(t, r))
	deliver(r, deleted("a"), source.Change{
		Key:    source.Key{Kind: kinds.Sidecar, Namespace: "c", Name: "c"},
		Object: &networkingv1.Sidecar{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: "c"}}, Origin: "c.yaml:1",
	})
	require.ElementsMatch(t, []string{"b", "c"}, settle(t, r), "no encoding of what was there before")
	deliver(r, namespace("d"), namespace("e"),
		source.Change{Key: source.Key{Kind: kinds.Sidecar, Namespace: "c", Name: "c"}})
	require.ElementsMatch(t, []string{"b", "d", "e"}, settle(t, r))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, secret.Object, p.objects[secret.Key])
}

func TestEveryKindCanBeDecoded(t *testing.T) {
	for _, d := range kinds.All() {
		c := source.Change{Key: source.Key{Kind: d.Kind, Name: "a"}, Object: d.New()}
		encoded, err := encode(c)
		require.NoError(t, err)
		decoded, err := encoded.decode(time.Time{})
		require.NoError(t, err)
		require.IsType(t, c.Object, decoded.Object)
	}
	_, err := change{Key: source.Key{Kind: "Widget", Name: "a"}, Object: []byte("{}")}.decode(time.Time{})
	require.ErrorContains(t, err, "Widget a")
	_, err = change{Key: source.Key{Kind: kinds.Pod, Name: "a"}, Proto: []byte{0xff}}.decode(time.Time{})
	require.ErrorContains(t, err, "Pod a")
	_, err = change{Key: source.Key{Kind: kinds.Sidecar, Name: "a"}, Proto: []byte("x")}.decode(time.Time{})
	require.ErrorContains(t, err, "Sidecar a")
}
