package finder

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
)

// errNoJSON is for what stands between us and an API: some SDKs read a proxy's page as a list without servers.
var errNoJSON = errors.New("the answer is not that of the cloud's API")

// errNotWhole means that a list ended before it had as many items as it says.
var errNotWhole = errors.New("the list is not whole: try again later")

// answers passes on what an API answers, which is JSON or nothing, and remembers the last status, which some SDKs keep from
// their callers.
type answers struct {
	base   http.RoundTripper
	status atomic.Int32
}

// newAnswers goes through the proxy of the environment.
func newAnswers() *answers { return &answers{base: http.DefaultTransport} }

func (a *answers) client() *http.Client { return &http.Client{Transport: a, Timeout: requestTimeout} }

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	a.status.Store(0)
	response, err := a.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusNoContent {
		a.status.Store(http.StatusNoContent)
		return response, nil
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != jsonType {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w (HTTP %s)", errNoJSON, response.Status)
	}
	a.status.Store(int32(response.StatusCode))
	// govultr and linodego take no parameters beside the type.
	response.Header.Set("Content-Type", jsonType)
	response.Body = boundedBody{Reader: io.LimitReader(response.Body, maxAnswer), Closer: response.Body}
	return response, nil
}

const jsonType = "application/json"

type boundedBody struct {
	io.Reader
	io.Closer
}
