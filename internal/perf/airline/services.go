package airline

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// customers is how many there are: the published load has so many.
const customers = 200

// CustomerID returns the name by which the nth customer logs in.
func CustomerID(n int) string { return fmt.Sprintf("uid%d@email.com", n%customers) }

// password is that of all customers.
const password = "password"

// Profile is what the customer service keeps.
type Profile struct {
	ID       string `json:"id"`
	Password string `json:"password,omitempty"`
	Street   string `json:"street"`
	City     string `json:"city"`
	Phone    string `json:"phone"`
	// Miles are those of the reward program.
	Miles int `json:"miles"`
}

func (s *service) loadCustomers() error {
	all := map[string]any{}
	for n := range customers {
		id := CustomerID(n)
		all[id] = Profile{ID: id, Password: password, Street: "124 Main St.", City: "Anytown", Phone: "919-123-4567"}
	}
	return s.data.fill(all)
}

type credentials struct{ Login, Password string }

// login gives a token to who has the right password, which the customer service knows.
func (s *service) login(w http.ResponseWriter, r *http.Request) {
	c := credentials{r.PostFormValue("login"), r.PostFormValue("password")}
	var valid bool
	if err := s.call(r.Context(), http.MethodPost, s.CustomerURL+"/customer/validate", c, &valid); err != nil {
		refuse(w, http.StatusBadGateway, err)
		return
	}
	if !valid {
		refuse(w, http.StatusForbidden, errors.New("want the login and the password of a customer"))
		return
	}
	token, err := newToken(c.Login, time.Now())
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	reply(w, map[string]string{"token": token})
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(into)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("want JSON: %w", err))
	}
	return err == nil
}

func (s *service) validate(w http.ResponseWriter, r *http.Request) {
	var c credentials
	if !decode(w, r, &c) {
		return
	}
	var p Profile
	there, err := s.data.get(c.Login, &p)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	reply(w, there && p.Password == c.Password)
}

// own reports whether a request is of the customer in its path. If not it is refused.
func own(w http.ResponseWriter, r *http.Request) (string, bool) {
	customer, err := customerOf(r, time.Now())
	if id := r.PathValue("id"); err == nil && id != "" && id != customer {
		err = errors.New("want a token of this customer")
	}
	if err != nil {
		refuse(w, http.StatusUnauthorized, err)
	}
	return customer, err == nil
}

func (s *service) profile(w http.ResponseWriter, r *http.Request) {
	id, ok := own(w, r)
	if !ok {
		return
	}
	s.answerProfile(w, id, func(*Profile) {})
}

func (s *service) updateProfile(w http.ResponseWriter, r *http.Request) {
	var changed Profile
	id, ok := own(w, r)
	if !ok || !decode(w, r, &changed) {
		return
	}
	s.answerProfile(w, id, func(p *Profile) { p.Street, p.City, p.Phone = changed.Street, changed.City, changed.Phone })
}

// addMiles is called by the booking service.
func (s *service) addMiles(w http.ResponseWriter, r *http.Request) {
	var miles int
	if decode(w, r, &miles) {
		s.answerProfile(w, r.PathValue("id"), func(p *Profile) { p.Miles += miles })
	}
}

// answerProfile changes a profile, and answers with it.
func (s *service) answerProfile(w http.ResponseWriter, id string, change func(*Profile)) {
	var p Profile
	there, err := s.data.get(id, &p)
	if err == nil && there {
		before := p
		if change(&p); p != before {
			err = s.data.put(id, p)
		}
	}
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, err)
	case !there:
		refuse(w, http.StatusNotFound, errors.New("there is no such customer"))
	default:
		p.Password = ""
		reply(w, p)
	}
}

// Airports returns the codes of all airports. There are flights from each to each other.
func Airports() []string {
	return []string{"BOM", "CDG", "DEL", "FRA", "HKG", "JFK", "LHR", "NRT", "SVO", "SYD"}
}

// Flights are those of one way.
type Flights struct {
	Flights []FlightOffer `json:"flights"`
}

// FlightOffer is one flight.
type FlightOffer struct {
	ID    string `json:"id"`
	Price int    `json:"price"`
	Miles int    `json:"miles"`
}

func (s *service) loadFlights() error {
	all := map[string]any{}
	for i, from := range Airports() {
		for j, to := range Airports() {
			if from == to {
				continue
			}
			var f Flights
			for n := range 5 {
				offer := FlightOffer{Price: 200 + 10*n, Miles: 500 + 100*(i+j)}
				offer.ID = fmt.Sprintf("%s-%s-%d", from, to, n)
				f.Flights = append(f.Flights, offer)
				all[offer.ID] = offer
			}
			all[from+"/"+to] = f
		}
	}
	return s.data.fill(all)
}

func (s *service) queryFlights(w http.ResponseWriter, r *http.Request) {
	f := Flights{Flights: []FlightOffer{}}
	if _, err := s.data.get(r.FormValue("from")+"/"+r.FormValue("to"), &f); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	reply(w, f)
}

func (s *service) flightMiles(w http.ResponseWriter, r *http.Request) {
	var f FlightOffer
	there, err := s.data.get(r.PathValue("id"), &f)
	if err != nil || !there {
		refuse(w, http.StatusNotFound, errors.Join(errors.New("there is no such flight"), err))
		return
	}
	reply(w, f.Miles)
}

// Booked is one booking.
type Booked struct {
	ID     string `json:"id"`
	Flight string `json:"flight"`
	Miles  int    `json:"miles"`
}

// reward asks for the miles of a flight, and adds them to a customer's, or takes them away.
func (s *service) reward(r *http.Request, customer, flight string, sign int) (miles int, err error) {
	if err := s.call(r.Context(), http.MethodGet, s.FlightURL+"/flight/miles/"+flight, nil, &miles); err != nil {
		return 0, err
	}
	var p Profile
	err = s.call(r.Context(), http.MethodPost, s.CustomerURL+"/customer/miles/"+customer, sign*miles, &p)
	return miles, err
}

func (s *service) book(w http.ResponseWriter, r *http.Request) {
	customer, ok := own(w, r)
	if !ok {
		return
	}
	flight := r.PostFormValue("flight")
	miles, err := s.reward(r, customer, flight, 1)
	if err != nil {
		refuse(w, http.StatusBadGateway, err)
		return
	}
	b := Booked{ID: rand.Text(), Flight: flight, Miles: miles}
	s.change(w, customer, func(all []Booked) []Booked { return append(all, b) }, b)
}

func (s *service) bookings(w http.ResponseWriter, r *http.Request) {
	customer, ok := own(w, r)
	if !ok {
		return
	}
	all := []Booked{}
	if _, err := s.data.get(customer, &all); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	reply(w, all)
}

func (s *service) cancel(w http.ResponseWriter, r *http.Request) {
	customer, ok := own(w, r)
	if !ok {
		return
	}
	id, flight := r.PostFormValue("id"), r.PostFormValue("flight")
	if _, err := s.reward(r, customer, flight, -1); err != nil {
		refuse(w, http.StatusBadGateway, err)
		return
	}
	s.change(w, customer, func(all []Booked) []Booked {
		return slices.DeleteFunc(all, func(b Booked) bool { return b.ID == id })
	}, "cancelled")
}

// change changes the bookings of a customer, and answers.
func (s *service) change(w http.ResponseWriter, customer string, how func([]Booked) []Booked, answer any) {
	var all []Booked
	_, err := s.data.get(customer, &all)
	if err == nil {
		err = s.data.put(customer, how(all))
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	reply(w, answer)
}
