package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// poll is how often a condition is looked at again.
const poll = 50 * time.Millisecond

// errEnded is why nothing more is waited for.
var errEnded = errors.New("it has ended")

// await looks at a condition until it holds or the context ends; it returns the last reason why
// not.
func await(ctx context.Context, condition func(context.Context) error) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		err := condition(ctx)
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// awaitReady waits until the API server says that it is ready, which includes RBAC's first roles
// and the namespaces.
func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	err = await(ctx, func(ctx context.Context) error {
		for _, p := range []*process{s.etcd, s.apiServer} {
			if p.ended() {
				return fmt.Errorf("%s: %w", p.name, errEnded)
			}
		}
		return get(ctx, client, s.config.Host+"/readyz")
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server: %w", err)
	}
	return nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
