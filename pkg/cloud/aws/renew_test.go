package aws

import (
	"context"
	"errors"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// sessionSequence is a credentials provider. Each call returns the next session, and after the end the last session again. For
// the session "" it returns an error.
type sessionSequence struct {
	sessions []string
	asked    int
}

// Retrieve implements aws.CredentialsProvider.
func (p *sessionSequence) Retrieve(context.Context) (sdk.Credentials, error) {
	session := p.sessions[min(p.asked, len(p.sessions)-1)]
	p.asked++
	if session == "" {
		return sdk.Credentials{}, errors.New("login expired")
	}
	return sdk.Credentials{AccessKeyID: "key", SecretAccessKey: "secret", SessionToken: session}, nil
}

func TestExpiredCredentialsAreRenewed(t *testing.T) {
	over := errorWithCode(403, "ExpiredToken", "The security token included in the request is expired")
	cases := map[string]struct {
		sessions []string
		answers  map[string]error // by session
		err      error
		sent     string
	}{
		"nothing is wrong":            {[]string{"a", "b"}, nil, nil, "a"},
		"another session":             {[]string{"a", "b"}, map[string]error{"a": over}, nil, "a b"},
		"another of EC2":              {[]string{"a", "b"}, map[string]error{"a": errorWithCode(400, "RequestExpired", "Request has expired.")}, nil, "a b"},
		"no other session":            {[]string{"a"}, map[string]error{"a": over}, over, "a"},
		"the other is no better":      {[]string{"a", "b", "c"}, map[string]error{"a": over, "b": over}, over, "a b"},
		"no more sessions":            {[]string{"a", ""}, map[string]error{"a": over}, over, "a"},
		"it is not about the session": {[]string{"a", "b"}, map[string]error{"a": errDenied}, errDenied, "a"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &sessionSequence{sessions: c.sessions}
			cache := sdk.NewCredentialsCache(p)
			var sent, bodies []string
			send := middleware.FinalizeHandlerFunc(func(ctx context.Context, in middleware.FinalizeInput) (out middleware.FinalizeOutput, _ middleware.Metadata, err error) {
				used, err := cache.Retrieve(ctx)
				if err != nil {
					return out, middleware.Metadata{}, err
				}
				body := make([]byte, len("Action=X"))
				if _, err := in.Request.(*smithyhttp.Request).GetStream().Read(body); err != nil {
					t.Error(err)
				}
				sent, bodies = append(sent, used.SessionToken), append(bodies, string(body))
				return out, middleware.Metadata{}, c.answers[used.SessionToken]
			})
			request, err := smithyhttp.NewStackRequest().(*smithyhttp.Request).SetStream(strings.NewReader("Action=X"))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = credentialRenewal{cache}.HandleFinalize(t.Context(), middleware.FinalizeInput{Request: request}, send)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if got := strings.Join(sent, " "); got != c.sent {
				t.Errorf("sent with %q, want %q", got, c.sent)
			}
			for i, body := range bodies {
				if body != "Action=X" {
					t.Errorf("request %d had the body %q", i, body)
				}
			}
		})
	}
}

var errDenied = errorWithCode(403, "AccessDenied", "no")

// TestCredentialsAreRenewedBeforeEachTry checks that the renewal comes directly before the step that chooses how a request is
// signed. The SDK runs this step for each try.
func TestCredentialsAreRenewedBeforeEachTry(t *testing.T) {
	p := &sessionSequence{sessions: []string{"a", "b"}}
	cfg := sdk.Config{Credentials: sdk.NewCredentialsCache(p)}
	addCredentialRenewal(&cfg)
	stack := middleware.NewStack("x", smithyhttp.NewStackRequest)
	if err := stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("ResolveAuthScheme", nil), middleware.After); err != nil {
		t.Fatal(err)
	}
	for _, change := range cfg.APIOptions {
		if err := change(stack); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(stack.Finalize.List(), " "); got != "RenewCredentials ResolveAuthScheme" {
		t.Errorf("the middlewares are %q", got)
	}
}
