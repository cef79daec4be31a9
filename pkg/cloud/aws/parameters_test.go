package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	smithymiddleware "github.com/aws/smithy-go/middleware"
)

// recordingServer stores requests, and returns the same answer to each.
type recordingServer struct {
	answer   func() (*http.Response, error)
	requests []*http.Request
	bodies   []string
}

// Do implements aws.HTTPClient.
func (s *recordingServer) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	s.requests, s.bodies = append(s.requests, request), append(s.bodies, string(body))
	return s.answer()
}

var (
	// varying matches the parts of headers that differ between two equal requests.
	varying = regexp.MustCompile(`Signature=\w+|[0-9]{8}T[0-9]{6}Z|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// ownAgent matches the parts of the user agent that the program and its user choose. The SDK adds facts about its client.
	ownAgent = regexp.MustCompile(`(kubectl-nodeupgrade|app)/\S+`)
)

// String lists the requests without the parts that vary.
func (s *recordingServer) String() string {
	var all []string
	for i, r := range s.requests {
		all = append(all, r.Method+" "+r.URL.String())
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			value := varying.ReplaceAllString(strings.Join(r.Header[name], " | "), "*")
			if name == "User-Agent" {
				value = strings.Join(ownAgent.FindAllString(value, -1), " ")
			}
			all = append(all, name+": "+value)
		}
		all = append(all, s.bodies[i])
	}
	return strings.Join(all, "\n")
}

// isSignedWith reports whether the last request was signed with the time at that offset from now.
func (s *recordingServer) isSignedWith(offset time.Duration) bool {
	signed, err := time.Parse("20060102T150405Z", s.requests[len(s.requests)-1].Header.Get("X-Amz-Date"))
	return err == nil && time.Until(signed.Add(-offset)).Abs() < time.Minute
}

// immediateRetries returns a retryer that sends a request up to three times without pauses.
func immediateRetries() sdk.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 3
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
}

func parametersBySDK(ctx context.Context, cfg *sdk.Config, names []string) (map[string]string, error) {
	out, err := ssm.NewFromConfig(*cfg).GetParameters(ctx, &ssm.GetParametersInput{Names: names})
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, p := range out.Parameters {
		values[*p.Name] = *p.Value
	}
	return values, nil
}

func parametersByClient(ctx context.Context, cfg *sdk.Config, names []string) (map[string]string, error) {
	return newParameterClient(ctx, cfg).getParameters(ctx, names)
}

// sendTwice reads parameters with the SDK's client and with the program's, and fails if their requests differ. It returns the
// server of the program's requests, and what a user of each client reads.
func sendTwice(t *testing.T, answer func() (*http.Response, error), own ...func(*config.LoadOptions) error) (server *recordingServer, theirs, ours string) {
	t.Helper()
	var servers, results []string
	for _, read := range []func(context.Context, *sdk.Config, []string) (map[string]string, error){parametersBySDK, parametersByClient} {
		server = &recordingServer{answer: answer}
		cfg, err := config.LoadDefaultConfig(t.Context(), append([]func(*config.LoadOptions) error{
			config.WithHTTPClient(server), config.WithRetryer(immediateRetries),
			config.WithAPIOptions([]func(*smithymiddleware.Stack) error{middleware.AddUserAgentKeyValue("kubectl-nodeupgrade", "1")}),
		}, own...)...)
		if err != nil {
			t.Fatal(err)
		}
		addCredentialRenewal(&cfg)
		values, err := read(t.Context(), &cfg, []string{"/a", "/b"})
		outcome, _, _ := classifyError(cmp.Or(err, errors.New("")))
		servers, results = append(servers, server.String()), append(results, fmt.Sprint(values, explainError("reading parameters", err), outcome))
	}
	if servers[0] != servers[1] {
		t.Errorf("the SDK's client sends\n%s\nand the program sends\n%s", servers[0], servers[1])
	}
	return server, results[0], results[1]
}

// compareWithSDK does the same, and also fails if the results differ.
func compareWithSDK(t *testing.T, answer func() (*http.Response, error), own ...func(*config.LoadOptions) error) (server *recordingServer, result string) {
	t.Helper()
	server, theirs, ours := sendTwice(t, answer, own...)
	if theirs != ours {
		t.Errorf("the SDK's client returns\n%s\nand the program's returns\n%s", theirs, ours)
	}
	return server, ours
}

// answerWith returns an answer of SSM. A header is "name: value".
func answerWith(status int, body string, headers ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		return r, nil
	}
}

var foundA = answerWith(200, `{"Parameters":[{"Name":"/a","Value":"1","Version":3,"Type":"String","LastModifiedDate":1.7E9}],"InvalidParameters":["/b"]}`)

// useAccount sets credentials and removes all other settings of AWS from the environment.
func useAccount(t *testing.T) {
	t.Helper()
	for _, setting := range os.Environ() {
		if name, value, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value) // restores it
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "credentials"))
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_SESSION_TOKEN", "token")
	t.Setenv("AWS_REGION", "us-east-1")
}

func TestParametersAreRequestedAsBySDK(t *testing.T) {
	const services = "[default]\nservices = mine\n[services mine]\nssm =\n  endpoint_url = http://profile.example/path\n"
	cases := map[string]struct {
		settings map[string]string
		profile  string
		url      string // "" if the settings contradict each other
	}{
		"nothing":                   {url: "https://ssm.us-east-1.amazonaws.com/"},
		"name of an application":    {settings: map[string]string{"AWS_SDK_UA_APP_ID": "mine"}, url: "https://ssm.us-east-1.amazonaws.com/"},
		"all services":              {settings: map[string]string{"AWS_ENDPOINT_URL": "http://all.example:1"}, url: "http://all.example:1/"},
		"SSM":                       {settings: map[string]string{"AWS_ENDPOINT_URL_SSM": "http://own.example/ssm"}, url: "http://own.example/ssm"},
		"SSM and all services":      {settings: map[string]string{"AWS_ENDPOINT_URL": "http://all.example", "AWS_ENDPOINT_URL_SSM": "http://own.example"}, url: "http://own.example/"},
		"Auto Scaling":              {settings: map[string]string{"AWS_ENDPOINT_URL_AUTO_SCALING": "http://other.example"}, url: "https://ssm.us-east-1.amazonaws.com/"},
		"ignored":                   {settings: map[string]string{"AWS_ENDPOINT_URL_SSM": "http://own.example", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, url: "https://ssm.us-east-1.amazonaws.com/"},
		"all services, ignored":     {settings: map[string]string{"AWS_ENDPOINT_URL": "http://all.example", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, url: "https://ssm.us-east-1.amazonaws.com/"},
		"profile":                   {profile: services, url: "http://profile.example/path"},
		"profile, and all services": {settings: map[string]string{"AWS_ENDPOINT_URL": "http://all.example"}, profile: services, url: "http://all.example/"},
		"profile for all services":  {profile: "[default]\nendpoint_url = http://profile.example\n", url: "http://profile.example/"},
		"profile with FIPS":         {profile: "[default]\nuse_fips_endpoint = true\n", url: "https://ssm-fips.us-east-1.amazonaws.com/"},
		"profile with dual stack":   {profile: "[default]\nuse_dualstack_endpoint = true\n", url: "https://ssm.us-east-1.api.aws/"},
		"FIPS and an own endpoint":  {settings: map[string]string{"AWS_USE_FIPS_ENDPOINT": "true", "AWS_ENDPOINT_URL_SSM": "http://own.example"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			useAccount(t)
			for key, value := range c.settings {
				t.Setenv(key, value)
			}
			if err := os.WriteFile(os.Getenv("AWS_CONFIG_FILE"), []byte(c.profile), 0o600); err != nil {
				t.Fatal(err)
			}
			server, result := compareWithSDK(t, foundA)
			switch {
			case c.url == "" && len(server.requests) == 0:
			case len(server.requests) != 1 || server.requests[0].URL.String() != c.url:
				t.Errorf("got %v, %s, want a request to %q", server, result, c.url)
			}
		})
	}
}

// TestParametersAreRequestedInAllPartitions checks that the request goes to the address that the SDK's client for SSM would use. The
// program derives that address from the one of Auto Scaling.
func TestParametersAreRequestedInAllPartitions(t *testing.T) {
	useAccount(t)
	for _, region := range []string{
		"us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "us-isof-south-1",
		"eusc-de-east-1", "xx-new-1",
	} {
		for _, fips := range []string{"false", "true"} {
			for _, dualStack := range []string{"false", "true"} {
				t.Run(region+" fips="+fips+" dualstack="+dualStack, func(t *testing.T) {
					t.Setenv("AWS_REGION", region)
					t.Setenv("AWS_USE_FIPS_ENDPOINT", fips)
					t.Setenv("AWS_USE_DUALSTACK_ENDPOINT", dualStack)
					compareWithSDK(t, foundA)
				})
			}
		}
	}
}

func TestParameterErrorsAreThoseOfSDK(t *testing.T) {
	const denied = `{"__type":"AccessDeniedException","Message":"User: u is not authorized to perform: ssm:GetParameters on resource: arn:a because no policy allows it"}`
	cases := map[string]struct {
		answer func() (*http.Response, error)
		sent   int
		result string
	}{
		"found":                   {foundA, 1, "map[/a:1]"},
		"nothing":                 {answerWith(200, `{}`), 1, "map[]"},
		"denied":                  {answerWith(400, denied), 1, "allow these credentials the IAM action ssm:GetParameters on arn:a"},
		"denied without words":    {answerWith(400, `{"__type":"AccessDeniedException"}`), 1, "allow these credentials the IAM action ssm:GetParameters"},
		"long code":               {answerWith(400, `{"__type":"com.amazonaws.ssm#ParameterNotFound","message":"no"}`), 1, "no (ParameterNotFound)"},
		"code in the header":      {answerWith(400, `{}`, "X-Amzn-ErrorType: InvalidKeyId:http://x"), 1, "InvalidKeyId"},
		"throttled":               {answerWith(400, `{"__type":"ThrottlingException","message":"Rate exceeded"}`), 3, "Rate exceeded (ThrottlingException)"},
		"expired":                 {answerWith(400, `{"__type":"ExpiredTokenException","message":"The security token included in the request is expired"}`), 1, "the credentials have expired"},
		"unknown key":             {answerWith(400, `{"__type":"UnrecognizedClientException","message":"The security token is invalid."}`), 1, "check the credentials"},
		"server's fault":          {answerWith(500, `{"__type":"InternalServerError","message":"oh"}`), 3, "oh (InternalServerError)"},
		"balancer's answer":       {answerWith(503, `<html>`), 3, "failed to decode response body"},
		"the connection was lost": {func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 3, "unexpected EOF"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			useAccount(t)
			server, result := compareWithSDK(t, c.answer)
			if len(server.requests) != c.sent || !strings.Contains(result, c.result) {
				t.Errorf("got %s after %d requests, want %s after %d", result, len(server.requests), c.result, c.sent)
			}
		})
	}
}

// TestUnreadableParameterAnswers checks answers whose errors the SDK words in another way.
func TestUnreadableParameterAnswers(t *testing.T) {
	cases := map[string]struct {
		answer func() (*http.Response, error)
		sent   int
		result string
	}{
		"no body":           {answerWith(200, ``), 1, "deserialization failed, unexpected end of JSON input"},
		"answer is no JSON": {answerWith(200, `<html>`), 1, "deserialization failed, invalid character '<'"},
		"empty error":       {answerWith(502, ``), 3, "reading parameters: UnknownError"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			useAccount(t)
			server, _, result := sendTwice(t, c.answer)
			if len(server.requests) != c.sent || !strings.Contains(result, c.result) {
				t.Errorf("got %s after %d requests, want %s after %d", result, len(server.requests), c.result, c.sent)
			}
		})
	}
}

func TestParameterErrorsOfCredentialsAreThoseOfSDK(t *testing.T) {
	useAccount(t)
	server, result := compareWithSDK(t, foundA, config.WithCredentialsProvider(&sessionSequence{sessions: []string{""}}))
	if len(server.requests) != 0 || !strings.Contains(result, "no AWS credentials found (get identity: get credentials: ") {
		t.Errorf("got %s after %v", result, server)
	}
}

func TestParametersAreRequestedAgainWithNewCredentials(t *testing.T) {
	useAccount(t)
	server := &recordingServer{answer: answerWith(400, `{"__type":"ExpiredTokenException"}`)}
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithHTTPClient(server), config.WithCredentialsProvider(&sessionSequence{sessions: []string{"a", "b"}}))
	if err != nil {
		t.Fatal(err)
	}
	addCredentialRenewal(&cfg)
	_, err = newParameterClient(t.Context(), &cfg).getParameters(t.Context(), []string{"/a"})
	var sessions []string
	for _, r := range server.requests {
		sessions = append(sessions, r.Header.Get("X-Amz-Security-Token"))
	}
	if got := strings.Join(sessions, " "); got != "a b" || err == nil {
		t.Errorf("sent with the sessions %q, want a b; %v", got, err)
	}
}

func TestParametersAreRequestedWithServersTime(t *testing.T) {
	useAccount(t)
	const ahead = 2 * time.Hour
	for _, corrected := range []bool{true, false} {
		t.Setenv("AWS_DISABLE_CLOCK_SKEW_CORRECTION", fmt.Sprint(!corrected))
		date := "Date: " + time.Now().Add(ahead).UTC().Format(http.TimeFormat)
		server, result := compareWithSDK(t, answerWith(400, `{"__type":"InvalidSignatureException","message":"Signature expired"}`, date))
		if got := server.isSignedWith(ahead); got != corrected {
			t.Errorf("the last request is signed with the server's time: %v, want %v; %s", got, corrected, result)
		}
	}
}
