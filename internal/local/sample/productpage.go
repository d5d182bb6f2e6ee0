package sample

import (
	"net/http"
	"net/url"
	"strconv"
)

// userCookie has the name of the user. The page passes it on as the header end-user.
const userCookie = "user"

func (h *handler) addProductPage(mux *http.ServeMux) {
	mux.Handle("GET /{$}", http.RedirectHandler("/productpage", http.StatusFound))
	mux.HandleFunc("GET /productpage", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "text/html; charset=utf-8")
		_ = h.page(asUser(r)).write(w) // the client has gone
	})
	mux.HandleFunc("POST /login", h.login)
	mux.HandleFunc("POST /logout", h.login)
	mux.Handle("GET /login", http.RedirectHandler("/productpage", http.StatusFound))
	mux.Handle("GET /logout", http.RedirectHandler("/productpage", http.StatusFound))
	mux.HandleFunc("GET /api/v1/products", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, []map[string]any{{"id": 0, "title": "The Comedy of Errors"}})
	})
	mux.HandleFunc("GET /api/v1/products/{id}", h.forward(h.o.DetailsURL+"/details/"))
	mux.HandleFunc("GET /api/v1/products/{id}/reviews", h.forward(h.o.ReviewsURL+"/reviews/"))
	mux.HandleFunc("GET /api/v1/products/{id}/ratings", h.forward(h.o.RatingsURL+"/ratings/"))
}

// page gathers the parts. A part that fails is shown as an error, and the others are shown.
func (h *handler) page(r *http.Request) page {
	p := page{User: r.Header.Get("end-user"), Host: h.o.Hostname, Version: h.o.Version}
	var detail Detail
	if err := h.client.getJSON(r, h.o.DetailsURL+"/details/0", &detail); err != nil {
		p.DetailError = err.Error()
	} else {
		p.Detail = &detail
	}
	var reviews ReviewList
	if err := h.client.getJSON(r, h.o.ReviewsURL+"/reviews/0", &reviews); err != nil {
		p.ReviewsError = err.Error()
	} else {
		p.Reviews = &reviews
	}
	return p
}

// asUser sets the header end-user of a request by its cookie, for the calls made on its behalf.
func asUser(r *http.Request) *http.Request {
	if c, err := r.Cookie(userCookie); err == nil && c.Value != "" {
		if name, err := url.QueryUnescape(c.Value); err == nil {
			r.Header.Set("end-user", name)
		}
	}
	return r
}

// login signs in under any name, without a password. Without a name it signs out.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	c := &http.Cookie{Name: userCookie, Value: url.QueryEscape(r.FormValue("username")), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
	if c.Value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
	http.Redirect(w, r, "/productpage", http.StatusSeeOther)
}

// forward answers with what another service answers.
func (h *handler) forward(base string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, ok := bookID(w, r)
		if !ok {
			return
		}
		status, body, err := h.client.get(asUser(r), base+strconv.Itoa(id))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("content-type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client has gone
	}
}
