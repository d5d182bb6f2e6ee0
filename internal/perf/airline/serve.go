package airline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The services.
const (
	Main     = "main"
	Auth     = "auth"
	Flight   = "flight"
	Customer = "customer"
	Booking  = "booking"
)

// Services returns the names of all services.
func Services() []string { return []string{Main, Auth, Flight, Customer, Booking} }

// Port is where each service listens unless it is told another port.
const Port = 9080

// Server says which service is run, and where.
type Server struct {
	Service, Address string
	Port             int
	// Data is the directory of the database.
	Data string
	// CustomerURL and FlightURL are where these services are, without a path.
	CustomerURL, FlightURL string
	// Proxy is the HTTP proxy for calls to them. Empty: none.
	Proxy string
}

// Serve runs a service until the context ends.
func (s Server) Serve(ctx context.Context) error {
	if !slices.Contains(Services(), s.Service) {
		return fmt.Errorf("service %q: want one of %s", s.Service, strings.Join(Services(), ", "))
	}
	data, err := openStore(s.Data, s.Service)
	if err != nil {
		return err
	}
	handler, err := s.handler(data)
	if err != nil {
		return errors.Join(err, data.close())
	}
	l, err := net.Listen("tcp", net.JoinHostPort(s.Address, strconv.Itoa(s.Port)))
	if err != nil {
		return errors.Join(err, data.close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, data.close())
	}
	return data.close()
}

// service is a running one.
type service struct {
	Server
	data   *store
	client *http.Client
}

func (s Server) handler(data *store) (http.Handler, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	if s.Proxy != "" {
		proxy, err := url.Parse(s.Proxy)
		if err != nil {
			return nil, fmt.Errorf("proxy %q: %w", s.Proxy, err)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	v := &service{s, data, &http.Client{Transport: transport, Timeout: 10 * time.Second}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { reply(w, "ok") })
	switch s.Service {
	case Main:
		mux.HandleFunc("GET /{$}", v.page)
	case Auth:
		mux.HandleFunc("POST /auth/login", v.login)
		mux.HandleFunc("GET /auth/logout", func(w http.ResponseWriter, _ *http.Request) { reply(w, "bye") })
	case Flight:
		mux.HandleFunc("GET /flight/query", v.queryFlights)
		mux.HandleFunc("GET /flight/miles/{id}", v.flightMiles)
		return mux, v.loadFlights()
	case Customer:
		mux.HandleFunc("POST /customer/validate", v.validate)
		mux.HandleFunc("GET /customer/byid/{id}", v.profile)
		mux.HandleFunc("POST /customer/byid/{id}", v.updateProfile)
		mux.HandleFunc("POST /customer/miles/{id}", v.addMiles)
		return mux, v.loadCustomers()
	case Booking:
		mux.HandleFunc("POST /booking/book", v.book)
		mux.HandleFunc("GET /booking/byuser/{id}", v.bookings)
		mux.HandleFunc("POST /booking/cancel", v.cancel)
	}
	return mux, nil
}

// maxBody bounds what is read of a request or an answer, in bytes.
const maxBody = 1 << 20

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("content-type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}

func refuse(w http.ResponseWriter, code int, err error) { http.Error(w, err.Error(), code) }

// call asks another service, and decodes its answer.
func (s *service) call(ctx context.Context, method, url string, in, out any) error {
	encoded, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return json.Unmarshal(body, out)
}

// page is the front page, which the published load does not ask for.
func (s *service) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("content-type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!DOCTYPE html><title>Airline</title><h1>Airline</h1>"+
		"<p>POST /auth/login, GET /flight/query, POST /booking/book, GET /booking/byuser/ID, "+
		"GET /customer/byid/ID</p>\n")
}
