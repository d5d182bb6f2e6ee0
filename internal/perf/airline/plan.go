package airline

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

//go:embed airline.jmx
var plan []byte

// Plan returns the plan for JMeter with the same mix of transactions. Its properties are protocol,
// host, port, threads, think (in ms), ramp and duration (in s), sessions and customers.
func Plan() []byte { return plan }

// The load of the published test, which the plan sends by default.
const (
	PublishedClients = 64
	PublishedThink   = 40 * time.Millisecond
)

// checkTimeout is how long the airline may take for the first answer.
const checkTimeout = 10 * time.Second

// Check logs a customer in, which needs the services auth and customer, and returns what is wrong
// with an address of the airline.
func Check(ctx context.Context, at *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := visitor{client: http.DefaultClient}
	login := url.Values{"login": {CustomerID(0)}, "password": {password}}
	if err := c.send(ctx, at.Scheme+"://"+at.Host+"/auth/login", login, nil); err != nil {
		return fmt.Errorf("%s is no gateway of the airline: POST /auth/login: %w", at, err)
	}
	return nil
}
