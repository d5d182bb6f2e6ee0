package airline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Load is the published mix of transactions, from several clients.
type Load struct {
	// URLs are where each service is, without a path.
	URLs map[string]string
	// Clients is how many send requests, each one after the other, with Think between two.
	Clients  int
	Think    time.Duration
	Duration time.Duration
}

// Result is what came of a load.
type Result struct {
	// Requests is how many were answered, by the names of transactions. Failed were not.
	Requests map[string]int
	Failed   int
	// Why is the reason of the first failure.
	Why     string
	Elapsed time.Duration
}

// Total returns how many requests were answered.
func (r Result) Total() (n int) {
	for _, c := range r.Requests {
		n += c
	}
	return n
}

// The transactions, by the names of the published plan.
const (
	Login         = "Login"
	ViewProfile   = "View Profile Information"
	UpdateProfile = "Update Customer"
	QueryFlight   = "QueryFlight"
	BookFlight    = "BookFlight"
	ListBookings  = "List Bookings"
	CancelBooking = "Cancel Booking"
	Logout        = "logout"
)

// The mix of a session, as published (acmeair-driver, AcmeAir.jmx): of so many in a hundred the
// customer's profile is looked at and changed, or a booking cancelled if there are more than
// keptBookings; flights are asked for queries times.
const (
	profileShare, cancelShare = 25, 25
	queries, keptBookings     = 5, 2
)

// Run sends sessions until the duration has passed.
func (l Load) Run(ctx context.Context) Result {
	ctx, cancel := context.WithTimeout(ctx, l.Duration)
	defer cancel()
	began := time.Now()
	var running sync.WaitGroup
	var mu sync.Mutex
	total := Result{Requests: map[string]int{}}
	for n := range l.Clients {
		running.Go(func() {
			c := &visitor{
				load: l, client: &http.Client{Transport: &http.Transport{}}, result: Result{Requests: map[string]int{}},
			}
			for session := n; ctx.Err() == nil; session += l.Clients {
				c.session(ctx, session)
			}
			c.client.CloseIdleConnections()
			mu.Lock()
			defer mu.Unlock()
			for name, count := range c.result.Requests {
				total.Requests[name] += count
			}
			total.Failed += c.result.Failed
			if total.Why == "" {
				total.Why = c.result.Why
			}
		})
	}
	running.Wait()
	total.Elapsed = time.Since(began)
	return total
}

// visitor is one client.
type visitor struct {
	load   Load
	client *http.Client
	result Result
	token  string
}

// session is what one customer does. It ends when something fails.
func (c *visitor) session(ctx context.Context, n int) {
	id := CustomerID(n)
	var login struct{ Token string }
	if !c.do(ctx, Login, Auth, "/auth/login", url.Values{"login": {id}, "password": {password}}, &login) {
		return
	}
	c.token = login.Token
	if chance(profileShare) {
		var p Profile
		if !c.do(ctx, ViewProfile, Customer, "/customer/byid/"+id, nil, &p) {
			return
		}
		p.Phone = fmt.Sprintf("919-123-%04d", rand.IntN(10_000))
		if !c.do(ctx, UpdateProfile, Customer, "/customer/byid/"+id, p, &p) {
			return
		}
	}
	var offers Flights
	for range queries {
		if !c.do(ctx, QueryFlight, Flight, "/flight/query?"+way().Encode(), nil, &offers) {
			return
		}
	}
	var b Booked
	if len(offers.Flights) > 0 && !c.do(ctx, BookFlight, Booking, "/booking/book",
		url.Values{"flight": {offers.Flights[0].ID}}, &b) {
		return
	}
	var all []Booked
	if !c.do(ctx, ListBookings, Booking, "/booking/byuser/"+id, nil, &all) {
		return
	}
	if chance(cancelShare) {
		for _, b := range all[:max(0, len(all)-keptBookings)] {
			form := url.Values{"id": {b.ID}, "flight": {b.Flight}}
			if !c.do(ctx, CancelBooking, Booking, "/booking/cancel", form, nil) {
				return
			}
		}
	}
	c.do(ctx, Logout, Auth, "/auth/logout", nil, nil)
}

func chance(percent int) bool { return rand.IntN(100) < percent }

// way is from one airport to another one.
func way() url.Values {
	all := Airports()
	from := rand.IntN(len(all))
	to := (from + 1 + rand.IntN(len(all)-1)) % len(all)
	return url.Values{"from": {all[from]}, "to": {all[to]}, "date": {"2026-12-01"}}
}

// do sends a request: GET without a body, a form, or JSON. It reports whether it was answered. What
// was on its way at the end counts neither way.
func (c *visitor) do(ctx context.Context, name, service, path string, body, out any) bool {
	err := c.send(ctx, c.load.URLs[service]+path, body, out)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		if c.result.Failed++; c.result.Why == "" {
			c.result.Why = name + ": " + err.Error()
		}
		return false
	}
	c.result.Requests[name]++
	return c.think(ctx)
}

func (c *visitor) think(ctx context.Context) bool {
	if c.load.Think == 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(c.load.Think)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *visitor) send(ctx context.Context, at string, body, out any) error {
	method, kind, content := http.MethodGet, "", ""
	switch b := body.(type) {
	case nil:
	case url.Values:
		method, kind, content = http.MethodPost, "application/x-www-form-urlencoded", b.Encode()
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			return err
		}
		method, kind, content = http.MethodPost, "application/json", string(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(content))
	if err != nil {
		return err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status + ": " + strings.TrimSpace(string(answer)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
