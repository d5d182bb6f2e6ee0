package keysets

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

// Bounds of an answer.
const (
	maxAnswer    = 1 << 20 // bytes
	maxHeaders   = 64 << 10
	maxRedirects = 5
)

// FetcherOptions say what a Fetcher may call.
type FetcherOptions struct {
	// Private are networks that are not public and may be called all the same.
	Private []netip.Prefix
	// Blocked are networks that may not be called, though Private or the internet has them.
	Blocked []netip.Prefix
	// TLS is the configuration of connections; nil for the authorities of the machine.
	TLS *tls.Config
	// IsDiscovery reports whether the document at a URI says where keys are, and has none itself.
	IsDiscovery func(uri string) bool
}

// Fetcher fetches sets of keys. It calls public addresses alone, unless it is told otherwise,
// because whoever may write a policy can name any address. What it looks at is the address that is
// dialed, after names are resolved and redirects followed.
type Fetcher struct {
	client      *http.Client
	isDiscovery func(string) bool
}

// NewFetcher returns a Fetcher.
func NewFetcher(o FetcherOptions) *Fetcher {
	guard := addresses{private: o.Private, blocked: o.Blocked}
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return guard.check(address) }}
	return &Fetcher{isDiscovery: o.IsDiscovery, client: &http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSClientConfig:        o.TLS,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           8,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxHeaders,
		},
	}}
}

// Close ends idle connections.
func (f *Fetcher) Close() { f.client.CloseIdleConnections() }

// Fetch returns the set at a URI in its canonical form. The message of an error is for the author
// of the policy, and stays the same while the reason does.
func (f *Fetcher) Fetch(ctx context.Context, uri string) (string, error) {
	if f.isDiscovery(uri) {
		found, err := f.discover(ctx, uri)
		if err != nil {
			return "", err
		}
		uri = found
	}
	text, err := f.get(ctx, uri)
	if err != nil {
		return "", err
	}
	keys, err := jwks.ReadPublic(text)
	if err != nil {
		return "", fmt.Errorf("what is there %w", err)
	}
	return keys, nil
}

// discover returns where an issuer says that its keys are.
func (f *Fetcher) discover(ctx context.Context, uri string) (string, error) {
	text, err := f.get(ctx, uri)
	if err != nil {
		return "", err
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if json.Unmarshal(text, &document) != nil {
		return "", errors.New("what is there is no object of JSON")
	}
	at, err := url.Parse(document.Keys)
	switch {
	case err != nil || at.Hostname() == "" || at.Scheme != "https" && at.Scheme != "http":
		return "", errors.New("what is there has no jwks_uri that is an address")
	case at.Scheme == "http" && strings.HasPrefix(uri, "https:"):
		return "", errors.New("what is there has a jwks_uri without TLS")
	}
	return document.Keys, nil
}

func (f *Fetcher) get(ctx context.Context, uri string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, errors.New("is no address")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "lateen")
	answer, err := f.client.Do(request)
	if err != nil {
		return nil, failure{err}
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answers with status %d", answer.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, failure{err}
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("answers with more than %d bytes", maxAnswer)
	}
	return text, nil
}

// errRedirect is a redirect that is not followed.
var errRedirect = errors.New("redirects")

func checkRedirect(to *http.Request, via []*http.Request) error {
	switch first := via[0].URL; {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w more than %d times", errRedirect, maxRedirects)
	case to.URL.Scheme == "http" && first.Scheme == "https":
		return fmt.Errorf("%w to an address without TLS", errRedirect)
	}
	return nil
}

// failure is an error of the network. Its message has no ports, times and addresses that differ
// from one attempt to the next; the error itself is for logs.
type failure struct{ error }

// Unwrap returns the error of the network.
func (f failure) Unwrap() error { return f.error }

// Error returns the reason for the author of a policy.
func (f failure) Error() string {
	var private *privateError
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(f.error, &private):
		return forAuthor
	case errors.Is(f.error, errRedirect):
		var u *url.Error
		if errors.As(f.error, &u) {
			return u.Err.Error()
		}
		return f.error.Error()
	case errors.As(f.error, &name):
		return fmt.Sprintf("is at host %q, which has no address", name.Name)
	case errors.As(f.error, &certificate):
		return "has a certificate that is not trusted"
	case errors.Is(f.error, syscall.ECONNREFUSED):
		return "refuses connections"
	case errors.Is(f.error, context.DeadlineExceeded), errors.As(f.error, &timeout) && timeout.Timeout():
		return "does not answer in time"
	}
	return "cannot be reached"
}
