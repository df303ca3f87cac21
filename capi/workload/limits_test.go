package workload

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answers is a server that answers each request so.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) { return a(request), nil }

func answer(status int, body string, header ...string) *http.Response {
	response := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		response.Header.Set(header[i], header[i+1])
	}
	return response
}

func read(t *testing.T, l *limited, path string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h"+path, nil)
	require.NoError(t, err)
	response, err := l.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { require.NoError(t, response.Body.Close()) }()
	require.Empty(t, response.Header.Get("Retry-After"), "client-go would sleep for as long as the server says")
	content, err := io.ReadAll(response.Body)
	return string(content), err
}

func TestLimited_answers(t *testing.T) {
	for name, tt := range map[string]struct {
		response *http.Response
		err      string
	}{
		"JSON":                {answer(200, `{"a":1}`), ""},
		"an error":            {answer(404, `{"kind":"Status"}`), ""},
		"come again in a day": {answer(429, `{"kind":"Status"}`, "Retry-After", "86400"), ""},
		"plain text":          {answer(200, "ok", "Content-Type", "text/plain; charset=utf-8"), ""},
		"a redirect":          {answer(307, "", "Location", "https://elsewhere"), "redirect"},
		"another protocol":    {answer(101, ""), "no HTTP"},
		"packed":              {answer(200, "", "Content-Encoding", "gzip"), "packed"},
		"protobuf":            {answer(200, "", "Content-Type", "application/vnd.kubernetes.protobuf"), "no JSON"},
		"YAML":                {answer(200, "", "Content-Type", "application/yaml"), "no JSON"},
		"CBOR":                {answer(200, "", "Content-Type", "application/cbor"), "no JSON"},
		"long":                {answer(200, strings.Repeat("x", 101)), "more than 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var ended []error
			l := &limited{share: newShares().namespace("a"), answer: 100, time: time.Minute, ended: func(err error) { ended = append(ended, err) },
				next: answers(func(*http.Request) *http.Response { return tt.response })}
			content, err := read(t, l, "/api")
			require.Len(t, ended, 1)
			if tt.err == "" {
				require.NoError(t, err)
				require.NotEmpty(t, content)
				require.NoError(t, ended[0])
				return
			}
			require.ErrorContains(t, err, tt.err)
			require.ErrorIs(t, ended[0], errAnswer)
		})
	}
}

// A list that always has one more page ends; Cluster API would gather it.
func TestLimited_pagesWithoutEnd(t *testing.T) {
	limitedTo := func(page string) *limited {
		share := newShares().namespace("a")
		return &limited{share: share, pages: &share.pages, answer: maxAnswer, time: time.Minute, next: answers(func(*http.Request) *http.Response { return answer(200, page) })}
	}
	l := limitedTo(strings.Repeat("x", 1<<20))
	list := func(path string, most int) (pages int) {
		next := ""
		for pages = 0; pages < most; pages++ {
			if _, err := read(t, l, path+next); err != nil {
				require.ErrorContains(t, err, "too many pages")
				return pages
			}
			next = fmt.Sprintf("&continue=%d", pages)
		}
		return pages
	}
	require.Equal(t, 10, list("/api/v1/pods?limit=100&fieldSelector=a", 10))
	require.Equal(t, 10, list("/api/v1/pods?limit=100&fieldSelector=a", 10), "a list that begins anew counts from nothing")
	require.Equal(t, 7, list("/api/v1/pods?limit=100&fieldSelector=b", 100), "others of the namespace being read count")
	_, err := read(t, l, "/api/v1/pods/x")
	require.NoError(t, err, "what is no list is not held up")

	l = limitedTo("{}")
	require.Equal(t, 1025, list("/api/v1/pods?limit=100", 5000), "pages of nothing end too")

	target := func(text string) *http.Request {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h"+text, nil)
		require.NoError(t, err)
		return request
	}
	var old pages
	began := time.Now()
	old.add(target("/a?limit=1").URL, maxPaged+1, began)
	require.Error(t, old.begin(target("/b?limit=1&continue=x").URL, began.Add(time.Second)))
	require.NoError(t, old.begin(target("/b?limit=1&continue=x").URL, began.Add(time.Minute)), "one that nobody reads any more does not count")
}
