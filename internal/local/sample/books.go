package sample

import (
	"net/http"
	"strconv"
)

// Detail describes the book.
type Detail struct {
	ID        int    `json:"id"`
	Title     string `json:"title"`
	Author    string `json:"author"`
	Year      int    `json:"year"`
	Type      string `json:"type"`
	Pages     int    `json:"pages"`
	Publisher string `json:"publisher"`
	Language  string `json:"language"`
}

// ReviewList is the answer of the reviews service.
type ReviewList struct {
	ID      string   `json:"id"`
	PodName string   `json:"podname"`
	Version string   `json:"version"`
	Reviews []Review `json:"reviews"`
}

// Review is one reader's opinion; Rating is absent in v1.
type Review struct {
	Reviewer string  `json:"reviewer"`
	Text     string  `json:"text"`
	Rating   *Rating `json:"rating,omitempty"`
}

// Rating is a number of stars and their colour, or an error.
type Rating struct {
	Stars int    `json:"stars,omitempty"`
	Color string `json:"color,omitempty"`
	Error string `json:"error,omitempty"`
}

// RatingList is the answer of the ratings service.
type RatingList struct {
	ID      int            `json:"id"`
	PodName string         `json:"podname"`
	Version string         `json:"version"`
	Ratings map[string]int `json:"ratings"`
}

func bookID(w http.ResponseWriter, r *http.Request) (int, bool) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		http.Error(w, "want a number for the book", http.StatusBadRequest)
	}
	return id, err == nil
}

func (h *handler) details(w http.ResponseWriter, r *http.Request) {
	if id, ok := bookID(w, r); ok {
		writeJSON(w, Detail{
			ID: id, Title: "The Comedy of Errors", Author: "William Shakespeare", Year: 1595, Type: "paperback",
			Pages: 200, Publisher: "Publisher A", Language: "English",
		})
	}
}

func (h *handler) ratings(w http.ResponseWriter, r *http.Request) {
	if id, ok := bookID(w, r); ok {
		writeJSON(w, RatingList{
			ID:      id,
			PodName: h.o.Hostname,
			Version: h.o.Version,
			Ratings: map[string]int{"Reviewer1": 5, "Reviewer2": 4},
		})
	}
}

// reviews answers without stars as v1, with black ones as v2, and with red ones as any other
// version.
func (h *handler) reviews(w http.ResponseWriter, r *http.Request) {
	id, ok := bookID(w, r)
	if !ok {
		return
	}
	list := ReviewList{
		ID: strconv.Itoa(id), PodName: h.o.Hostname, Version: h.o.Version,
		Reviews: []Review{
			{
				Reviewer: "Reviewer1",
				Text:     "Two pairs of twins, one city, and never a dull line. I laughed all the way.",
			},
			{
				Reviewer: "Reviewer2",
				Text:     "Great fun, though it asks you to believe that nobody looks twice at a face.",
			},
		},
	}
	if h.o.Version != "v1" {
		h.rate(r, list.Reviews)
	}
	writeJSON(w, list)
}

// rate adds the stars. If the ratings service fails, each review has the error instead.
func (h *handler) rate(r *http.Request, reviews []Review) {
	color := "red"
	if h.o.Version == "v2" {
		color = "black"
	}
	var ratings RatingList
	err := h.client.getJSON(r, h.o.RatingsURL+"/ratings/0", &ratings)
	for i := range reviews {
		if err != nil {
			reviews[i].Rating = &Rating{Error: "Ratings are not available at the moment: " + err.Error()}
			continue
		}
		reviews[i].Rating = &Rating{Stars: ratings.Ratings[reviews[i].Reviewer], Color: color}
	}
}
