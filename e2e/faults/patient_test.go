package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// patient is the way of who plays the rest of the world, and must not fail with it: what the server did not answer, or not to
// the end, is asked again until it does. Nothing that is asked on this way does harm when it is done twice. It is not for watches.
func patient(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			response, err := whole(next.RoundTrip(request))
			if err == nil {
				return response, nil
			}
			if request, err = again(request, err); err != nil {
				return nil, err
			}
			select {
			case <-request.Context().Done():
				return nil, request.Context().Err()
			case <-ticker.C:
			}
		}
	})
}

var errUnavailable = errors.New("503 Service Unavailable")

// whole reads an answer to its end: a server may be killed in the middle of it.
func whole(response *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusServiceUnavailable {
		return nil, errUnavailable
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// again is the request with its body from the start; one whose body cannot be had again ends with the error of the first time.
func again(request *http.Request, failed error) (*http.Request, error) {
	request = request.Clone(request.Context())
	if request.Body == nil {
		return request, nil
	}
	if request.GetBody == nil {
		return nil, failed
	}
	body, err := request.GetBody()
	request.Body = body
	return request, err
}

func TestPatient_asksUntilThereIsAnAnswer(t *testing.T) {
	tries := 0
	way := patient(roundTripper(func(request *http.Request) (*http.Response, error) {
		tries++
		body, err := io.ReadAll(request.Body)
		require.NoError(t, err)
		require.Equal(t, "body", string(body), "each time")
		switch tries {
		case 1:
			return nil, errLost
		case 2:
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		case 3: // the server dies while it answers
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))}, nil
		}
		return &http.Response{StatusCode: http.StatusConflict, Body: io.NopCloser(strings.NewReader("answer"))}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://server", bytes.NewBufferString("body"))
	require.NoError(t, err)
	response, err := way.RoundTrip(request)
	require.NoError(t, err)
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, "409 answer", fmt.Sprintf("%d %s", response.StatusCode, answer), "a refusal is an answer")
	require.Equal(t, 4, tries)
}
