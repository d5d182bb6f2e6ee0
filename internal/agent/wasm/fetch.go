package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Results of fetches, as Istio's agent counts them.
const (
	fetched          = "success"
	downloadFailure  = "download_failure"
	manifestFailure  = "manifest_failure"
	checksumMismatch = "checksum_mismatched"
	invalidModule    = "fetch_failure"
)

// fetchError is why a module cannot be had, and as what that is counted.
type fetchError struct {
	result string
	error
}

// maxError is how many bytes an error may have: some of them are the server's.
const maxError = 1 << 10

func (e *fetchError) Error() string {
	text := e.error.Error()
	if len(text) > maxError {
		return strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

func (e *fetchError) Unwrap() error { return e.error }

func failed(result, format string, args ...any) error {
	return &fetchError{result, fmt.Errorf(format, args...)}
}

// maxRedirects is how many redirects are followed.
const maxRedirects = 5

// transport returns what makes requests.
func (o *Options) transport() *http.Transport {
	return &http.Transport{
		DialContext: o.dial, DialTLSContext: o.dialTLS, ResponseHeaderTimeout: o.Timeout,
		ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}
}

// get fetches a module by HTTP.
func (o *Options) get(ctx context.Context, u *url.URL) ([]byte, error) {
	client := &http.Client{
		Transport: o.transport(), Timeout: o.Timeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirects:
				return errors.New("redirects do not end")
			case u.Scheme == "https" && r.URL.Scheme != "https":
				return errors.New("redirects from https to " + r.URL.Scheme)
			case !o.isAllowed(r.URL.Host):
				return errors.New("redirects to a host that modules may not be fetched from")
			}
			return nil
		},
	}
	wait := 500 * time.Millisecond
	for attempt := 1; ; attempt++ {
		body, again, err := o.getOnce(ctx, client, u)
		if err == nil || !again || attempt >= o.Attempts {
			return body, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
			wait *= 2
		}
	}
}

// getOnce asks once. It reports whether another attempt may succeed.
func (o *Options) getOnce(ctx context.Context, client *http.Client, u *url.URL) (body []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, false, err
	}
	answer, err := client.Do(r)
	if err != nil {
		var refused *url.Error
		if errors.As(err, &refused) {
			err = refused.Err // without the URL, which may have a token
		}
		return nil, ctx.Err() == nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, answer.StatusCode >= 500, fmt.Errorf("the server answers %d", answer.StatusCode)
	}
	body, err = o.read(answer.Body)
	return body, err != nil && !errors.Is(err, errTooLarge), err
}

var errTooLarge = errors.New("has more bytes than ISTIO_WASM_MAX_BINARY_SIZE_BYTES")

// read reads at most MaxBytes.
func (o *Options) read(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, o.MaxBytes+1))
	if err == nil && int64(len(body)) > o.MaxBytes {
		err = errTooLarge
	}
	return body, err
}

// maxBoxes is how many archives a module may be packed in, one in another.
const maxBoxes = 4

// unpacked returns the module in what was downloaded: itself, or the only file of an archive.
func (o *Options) unpacked(body []byte) ([]byte, error) {
	for range maxBoxes {
		var inner []byte
		var err error
		switch {
		case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
			var r *gzip.Reader
			if r, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				inner, err = o.read(r)
			}
		case len(body) > 262 && string(body[257:262]) == "ustar":
			r := tar.NewReader(bytes.NewReader(body))
			if _, err = r.Next(); err == nil {
				inner, err = o.read(r)
			}
		default:
			return body, nil
		}
		if err != nil {
			return nil, err
		}
		body = inner
	}
	return body, nil
}

// isModule reports whether something begins as a Wasm module does.
func isModule(body []byte) bool { return len(body) >= 8 && bytes.HasPrefix(body, []byte("\x00asm")) }

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
