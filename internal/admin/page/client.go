package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The pages below /debug that Lateen's own tools ask for.
const (
	Sync      = "syncz"
	Dump      = "config_dump"
	Filters   = "ecdsz"
	Mesh      = "mesh"
	Describe  = "describe"
	Authorize = "authorize"
	Objects   = "census"
	Patches   = "patchz"
	Planning  = "planz"
	Past      = "historyz"
	Blaming   = "blamez"
	Differing = "diffz"
	Restoring = "restorez"
	Costing   = "costz"
	Problems  = "problems"
	List      = "list"
)

// askTimeout bounds one request, and planTimeout one that the control plane itself gives up after
// ten seconds.
const (
	askTimeout  = 10 * time.Second
	planTimeout = 20 * time.Second
)

// ErrRefused is an answer with another code than 200.
var ErrRefused = errors.New("the control plane refuses")

// ErrSilent is a control plane that does not answer.
var ErrSilent = errors.New("nobody answers")

// Client asks one control plane.
type Client struct {
	// Name is of the Pod, or the address.
	Name string
	// Host is that of requests.
	Host string
	HTTP *http.Client
}

// At asks the control plane whose monitoring port is at an address, as 127.0.0.1:15014.
func At(address string) Client { return Client{Name: address, Host: address, HTTP: http.DefaultClient} }

// Get returns the body of a path, as /metrics.
func (c Client) Get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u := url.URL{Scheme: "http", Host: c.Host, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	return c.do(req)
}

// Ask sends a question in JSON to a page below /debug, and decodes the answer.
func Ask[T any](ctx context.Context, c Client, name string, question any) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	text, err := json.Marshal(question)
	if err != nil {
		return answer, err
	}
	u := url.URL{Scheme: "http", Host: c.Host, Path: Path(name)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(text))
	if err != nil {
		return answer, err
	}
	req.Header.Set("Content-Type", "application/json")
	body, err := c.do(req)
	if err != nil {
		return answer, err
	}
	return decoded[T](c, name, body)
}

func (c Client) do(req *http.Request) ([]byte, error) {
	resp, err := c.HTTP.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("%w at %s: is a control plane running? (%w)", ErrSilent, c.Name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s", ErrRefused, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Path is where a page below /debug is, by its name.
func Path(name string) string { return "/debug/" + name }

// Read asks for a page below /debug, and decodes its JSON.
func Read[T any](ctx context.Context, c Client, name string, query url.Values) (answer T, err error) {
	body, err := c.Get(ctx, Path(name), query)
	if err != nil {
		return answer, err
	}
	return decoded[T](c, name, body)
}

func decoded[T any](c Client, name string, body []byte) (answer T, err error) {
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("%s of %s: %w", Path(name), c.Name, err)
	}
	return answer, nil
}
