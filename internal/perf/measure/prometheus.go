package measure

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Prometheus is the HTTP API of a Prometheus.
type Prometheus struct {
	// Address is its URL. It may lack the scheme, as the book's does.
	Address string
	Client  *http.Client
	// MaxAnswer is how much of an answer is read, in bytes.
	MaxAnswer int64
}

// Get asks a question of the API, as "query" or "rules". It returns the answer, which may say that
// it is an error, and its HTTP status.
func (p Prometheus) Get(
	ctx context.Context, question string, query url.Values,
) (answer []byte, status string, err error) {
	address := p.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	at := strings.TrimSuffix(address, "/") + "/api/v1/" + question + "?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, "", err
	}
	response, err := p.Client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, p.MaxAnswer))
	return answer, response.Status, err
}
