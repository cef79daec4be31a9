package aws

import (
	"context"
	"errors"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// credentialRenewal repeats a request once with new credentials if AWS answers that the session of the old credentials has
// ended. The SDK renews credentials only at their expiry time (aws/credential_cache.go), but a session can end earlier. The
// refused request had no effect, so every request can be repeated.
type credentialRenewal struct{ *sdk.CredentialsCache }

// addCredentialRenewal makes the clients of a configuration renew its credentials.
func addCredentialRenewal(cfg *sdk.Config) {
	cache, ok := cfg.Credentials.(*sdk.CredentialsCache)
	if !ok {
		return
	}
	cfg.APIOptions = append(cfg.APIOptions, func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(credentialRenewal{cache}, "ResolveAuthScheme", middleware.Before)
	})
}

// ID implements middleware.FinalizeMiddleware.
func (credentialRenewal) ID() string { return "RenewCredentials" }

// HandleFinalize implements middleware.FinalizeMiddleware.
func (r credentialRenewal) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	used, unknown := r.Retrieve(ctx)
	first := in
	first.Request = smithyhttp.RequestCloner(in.Request) // signing changes a request
	out, metadata, err := next.HandleFinalize(ctx, first)
	api, answered := errors.AsType[smithy.APIError](err)
	if unknown != nil || !answered || !slices.Contains(expiredCredentialCodes(), api.ErrorCode()) || !r.renewCredentials(ctx, &used) {
		return out, metadata, err
	}
	if body, ok := in.Request.(interface{ RewindStream() error }); ok && body.RewindStream() != nil {
		return out, metadata, err
	}
	return next.HandleFinalize(ctx, in)
}

// renewCredentials fetches new credentials unless another request has already done so. renewed is false if the credentials are
// still the used ones, as with a profile or the environment.
func (r credentialRenewal) renewCredentials(ctx context.Context, used *sdk.Credentials) (renewed bool) {
	now, err := r.Retrieve(ctx)
	if err == nil && isSameSession(&now, used) {
		r.Invalidate()
		now, err = r.Retrieve(ctx)
	}
	return err == nil && !isSameSession(&now, used)
}

func isSameSession(a, b *sdk.Credentials) bool {
	return a.AccessKeyID == b.AccessKeyID && a.SessionToken == b.SessionToken
}
