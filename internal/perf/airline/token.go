package airline

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// claims are those of the airline's tokens, JWTs with HS256 (RFC 7519).
type claims struct {
	Subject string `json:"sub"`
	Expires int64  `json:"exp"`
}

const (
	tokenHeader = `{"alg":"HS256","typ":"JWT"}`
	tokenLife   = time.Hour
	// tokenKey is known to all services. It protects nothing but the sample's invented customers.
	tokenKey = "airline-sample"
)

// newToken returns a token of a customer.
func newToken(customer string, now time.Time) (string, error) {
	body, err := json.Marshal(claims{customer, now.Add(tokenLife).Unix()})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(tokenHeader)) + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + signature(text), nil
}

func signature(text string) string {
	mac := hmac.New(sha256.New, []byte(tokenKey))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

var errToken = errors.New("want a token of POST /auth/login in the header Authorization")

// customerOf returns whose token a request carries.
func customerOf(r *http.Request, now time.Time) (string, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	at := strings.LastIndexByte(token, '.')
	if !ok || at < 0 || !hmac.Equal([]byte(signature(token[:at])), []byte(token[at+1:])) {
		return "", errToken
	}
	header, body, _ := strings.Cut(token[:at], ".")
	if header != base64.RawURLEncoding.EncodeToString([]byte(tokenHeader)) {
		return "", errToken
	}
	decoded, err := base64.RawURLEncoding.DecodeString(body)
	var c claims
	if err != nil || json.Unmarshal(decoded, &c) != nil || now.Unix() >= c.Expires {
		return "", errToken
	}
	return c.Subject, nil
}
