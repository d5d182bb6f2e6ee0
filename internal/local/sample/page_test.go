package sample

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestValuesStayText: nothing that comes from elsewhere becomes a part of the page's HTML, neither
// a name that someone signs in with nor what another service answers.
func TestValuesStayText(t *testing.T) {
	const bad, harmless = `<script>"'&<!--host-->`, `&lt;script&gt;&#34;&#39;&amp;&lt;!--host--&gt;`
	front := startRole(t, Options{
		Role:       ProductPage,
		ReviewsURL: "http://127.0.0.1:1",
		DetailsURL: "http://127.0.0.1:1",
	})
	status, body := get(t, front+"/productpage", "cookie", userCookie+"="+url.QueryEscape(bad))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<strong>"+harmless+"</strong>")
	require.NotContains(t, body, "<script")

	detail := &Detail{Title: bad, Author: bad, Year: 1, Type: bad, Pages: 2, Publisher: bad, Language: bad}
	review := func(r *Rating) Review { return Review{Reviewer: bad, Text: bad, Rating: r} }
	reviews := &ReviewList{
		PodName: bad,
		Version: bad,
		Reviews: []Review{review(nil), review(&Rating{Error: bad}), review(&Rating{Color: bad})},
	}
	for _, c := range []struct {
		page page
		want int // values shown
	}{
		{page{}, 0},
		{page{User: bad, Host: bad, Version: bad, DetailError: bad, ReviewsError: bad}, 5},
		{page{Detail: detail, Reviews: reviews}, 6 + 2 + 3*2 + 2},
	} {
		var text strings.Builder
		require.NoError(t, c.page.write(&text))
		body := text.String()
		require.Equal(t, c.want, strings.Count(body, harmless), body)
		require.NotContains(t, body, "<script")
		require.NotContains(t, body, "<!--", "a part of the page is missing")
	}
}
