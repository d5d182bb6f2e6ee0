package airline

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is all services in this process, by their URLs.
func world(t *testing.T) map[string]string {
	t.Helper()
	urls := map[string]string{}
	var o Server
	for _, name := range []string{Customer, Flight, Auth, Booking, Main} {
		o.Service = name
		data, err := openStore(t.TempDir(), name)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, data.close()) })
		handler, err := o.handler(data)
		require.NoError(t, err)
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		urls[name] = server.URL
		o.CustomerURL, o.FlightURL = urls[Customer], urls[Flight]
	}
	return urls
}

// visit is one client that has logged in.
func visit(t *testing.T, urls map[string]string) *visitor {
	t.Helper()
	c := &visitor{load: Load{URLs: urls}, client: http.DefaultClient, result: Result{Requests: map[string]int{}}}
	c.session(t.Context(), 7)
	require.Empty(t, c.result.Why)
	return c
}

func TestASessionHasThePublishedTransactions(t *testing.T) {
	c := visit(t, world(t))
	for name, n := range map[string]int{Login: 1, QueryFlight: queries, BookFlight: 1, ListBookings: 1, Logout: 1} {
		require.Equal(t, n, c.result.Requests[name], name)
	}
	require.Equal(t, c.result.Requests[ViewProfile], c.result.Requests[UpdateProfile])
}

func TestABookingEarnsMilesAndACancellationTakesThem(t *testing.T) {
	urls := world(t)
	c := visit(t, urls)
	var before, after Profile
	var all []Booked
	id := CustomerID(7)
	require.NoError(t, c.send(t.Context(), urls[Customer]+"/customer/byid/"+id, nil, &before))
	require.NoError(t, c.send(t.Context(), urls[Booking]+"/booking/byuser/"+id, nil, &all))
	require.Len(t, all, 1)
	require.Equal(t, all[0].Miles, before.Miles)
	require.Empty(t, before.Password)
	form := url.Values{"id": {all[0].ID}, "flight": {all[0].Flight}}
	require.NoError(t, c.send(t.Context(), urls[Booking]+"/booking/cancel", form, nil))
	require.NoError(t, c.send(t.Context(), urls[Customer]+"/customer/byid/"+id, nil, &after))
	require.Zero(t, after.Miles)
}

func TestOthersAreRefused(t *testing.T) {
	urls := world(t)
	c := visit(t, urls)
	require.ErrorContains(t, c.send(t.Context(), urls[Customer]+"/customer/byid/"+CustomerID(8), nil, nil), "401")
	c.token = ""
	require.ErrorContains(t, c.send(t.Context(), urls[Booking]+"/booking/byuser/"+CustomerID(7), nil, nil), "401")
}

func TestTokens(t *testing.T) {
	now := time.Now()
	token, err := newToken("me", now)
	require.NoError(t, err)
	request := func(token string) *http.Request {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://x", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		return r
	}
	who, err := customerOf(request(token), now)
	require.NoError(t, err)
	require.Equal(t, "me", who)
	_, err = customerOf(request(token), now.Add(2*tokenLife))
	require.ErrorIs(t, err, errToken, "it has expired")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + ".e30."
	for _, bad := range []string{"", ".", token + "x", "a.b.c", none, none + signature(none)} {
		_, err = customerOf(request(bad), now)
		require.ErrorIs(t, err, errToken, bad)
	}
}

func TestAnUnknownServiceIsTold(t *testing.T) {
	require.ErrorContains(t, Server{Service: "none"}.Serve(t.Context()), `service "none": want one of main, auth`)
}

// TestTheJMeterPlanIsWellFormed: it is XML, and asks for each transaction of the mix by its name.
func TestTheJMeterPlanIsWellFormed(t *testing.T) {
	file, err := os.Open(planFile)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	names, decoder := map[string]int{}, xml.NewDecoder(file)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "HTTPSamplerProxy" {
			for _, a := range e.Attr {
				if a.Name.Local == "testname" {
					names[a.Value]++
				}
			}
		}
	}
	for _, name := range []string{
		Login, ViewProfile, UpdateProfile, QueryFlight, BookFlight, ListBookings, CancelBooking, Logout,
	} {
		require.Equal(t, 1, names[name], name)
	}
}
