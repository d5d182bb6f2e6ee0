package lab

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// requestRate is how many requests a second steadyRequests sends.
const requestRate = 200

// steadyRequests sends requests at fixed times through a proxy.
type steadyRequests struct {
	url string
	// transport leads to the proxy.
	transport *http.Transport

	mu           sync.Mutex
	sent, failed int
}

// maxInFlight bounds the requests that wait for an answer. Further ones are not sent.
const maxInFlight = 64

func (p *steadyRequests) run(ctx context.Context) {
	p.transport.MaxIdleConnsPerHost, p.transport.DisableCompression = maxInFlight, true
	defer p.transport.CloseIdleConnections()
	client := &http.Client{Transport: p.transport, Timeout: 5 * time.Second}
	ticker := time.NewTicker(time.Second / requestRate)
	defer ticker.Stop()
	places := make(chan struct{}, maxInFlight)
	var flying sync.WaitGroup
	defer flying.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case places <- struct{}{}:
		default:
			continue
		}
		flying.Go(func() {
			defer func() { <-places }()
			p.send(context.WithoutCancel(ctx), client) // one in flight at the end is answered
		})
	}
}

func (p *steadyRequests) send(ctx context.Context, client *http.Client) {
	err := get(ctx, client, p.url)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	if err != nil {
		p.failed++
	}
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
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
