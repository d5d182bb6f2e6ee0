package convert

import (
	"slices"
	"strings"
)

// misspeltMethod returns the method of HTTP that a value is probably meant as: one that is a letter
// away, where the value itself is no registered method. Methods may be anybody's own, as PURGE of
// caches, so that one that is like no other is nothing to tell.
func misspeltMethod(text string) string {
	text = strings.ToUpper(text)
	if strings.Contains(text, "*") || slices.Contains(registeredMethods(), text) {
		return ""
	}
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE"} {
		if isOneLetterApart(text, m) {
			return m
		}
	}
	return ""
}

// registeredMethods are those of IANA's registry of HTTP methods.
func registeredMethods() []string {
	return strings.Fields(`ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK
		MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PRI PROPFIND
		PROPPATCH PUT QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF
		VERSION-CONTROL`)
}

// isOneLetterApart reports whether one letter that is added, left out or replaced, or two that are
// exchanged, make one text of the other.
func isOneLetterApart(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) <= 1 && len(b) <= 1 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
}
