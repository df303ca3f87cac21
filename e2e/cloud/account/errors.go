package account

import (
	"errors"
	"fmt"
	"net/http"
)

// Error is an answer of the API that is not a success.
type Error struct {
	Status  int    `json:"-"`
	ID      string `json:"id"`
	Message string `json:"message"`
}

// Error returns the message with its status.
func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.ID, e.Message) }

// IsNotFound reports whether err says that a resource does not exist.
func IsNotFound(err error) bool {
	var apiErr *Error
	return errors.As(err, &apiErr) && apiErr.Status == http.StatusNotFound
}

// NotFound is the API's answer for a resource that does not exist.
func NotFound() *Error {
	return &Error{http.StatusNotFound, "not_found", "The resource you were accessing could not be found."}
}

// Unprocessable is the API's answer for a request it understood and refuses.
func Unprocessable(message string) *Error {
	return &Error{http.StatusUnprocessableEntity, "unprocessable_entity", message}
}

// Unauthorized is the API's answer for a missing, unknown or revoked token.
func Unauthorized() *Error {
	return &Error{http.StatusUnauthorized, "Unauthorized", "Unable to authenticate you"}
}

// Forbidden is the API's answer for a token without the needed scope.
func Forbidden() *Error {
	return &Error{http.StatusForbidden, "Forbidden", "You are not authorized to perform this operation"}
}
