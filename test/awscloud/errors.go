package awscloud

import (
	"errors"
	"fmt"
	"net/http"
)

// apiError is AWS's refusal of a request: an error code, the message and the HTTP status.
type apiError struct {
	Code, Message string
	Status        int
}

// asAPIError converts err to the error that the API returns. An error of another type becomes an InternalFailure.
func asAPIError(err error) *apiError {
	if e := (*apiError)(nil); errors.As(err, &e) {
		return e
	}
	return &apiError{Code: "InternalFailure", Message: err.Error(), Status: http.StatusInternalServerError}
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// clientError returns a client error with status 400.
func clientError(code, format string, args ...any) *apiError {
	return &apiError{Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

// validationError returns a ValidationError, with which Auto Scaling refuses nearly all invalid requests.
func validationError(format string, args ...any) *apiError {
	return clientError("ValidationError", format, args...)
}

// notModelledError returns the error for a request that AWS would accept and that the stand-in does not model. The SDK does not
// retry its status, 501.
func notModelledError(format string, args ...any) *apiError {
	return &apiError{
		Code:    "NotModelled",
		Message: "the stand-in does not model " + fmt.Sprintf(format, args...),
		Status:  http.StatusNotImplemented,
	}
}
