package hostile_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

func awsFront(t *testing.T, o *origin, plan hostile.Plan) (*hostile.Front, aws.Config) {
	t.Helper()
	front, err := hostile.AWS(t.Context(), o.URL, plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	return front, aws.Config{
		Region: "us-east-1", BaseEndpoint: &front.URL, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7EXAMPLE", "secret", ""),
	}
}

// services returns a function for each kind of service that sends it a request.
func services() map[string]func(context.Context, aws.Config) error {
	return map[string]func(context.Context, aws.Config) error{
		"autoscaling": func(ctx context.Context, c aws.Config) error {
			_, err := autoscaling.NewFromConfig(c).SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{
				AutoScalingGroupName: aws.String("g"), DesiredCapacity: aws.Int32(3),
			})
			return err
		},
		"ec2": func(ctx context.Context, c aws.Config) error {
			_, err := ec2.NewFromConfig(c).DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
			return err
		},
		"eks": func(ctx context.Context, c aws.Config) error {
			_, err := eks.NewFromConfig(c).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("c")})
			return err
		},
		"ssm": func(ctx context.Context, c aws.Config) error {
			_, err := ssm.NewFromConfig(c).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("p")})
			return err
		},
	}
}

func TestInjectedAWSErrorsHaveCodeOfEachService(t *testing.T) {
	codes := map[int]string{
		http.StatusInternalServerError: "InternalFailure", http.StatusServiceUnavailable: "ServiceUnavailable",
		http.StatusTooManyRequests: "Throttling", http.StatusUnauthorized: "InvalidClientTokenId",
		http.StatusForbidden: "AccessDenied", http.StatusConflict: "ScalingActivityInProgress",
	}
	ended := map[string]string{
		"autoscaling": "ExpiredToken", "ec2": "RequestExpired", "eks": "ExpiredTokenException", "ssm": "ExpiredTokenException",
	}
	for name, call := range services() {
		t.Run(name, func(t *testing.T) {
			codes := maps.Clone(codes)
			codes[hostile.SessionEnded] = ended[name]
			for status, want := range codes {
				o := plain(t, func(http.ResponseWriter, *http.Request) {})
				_, config := awsFront(t, o, all(hostile.Harm{Status: status}))
				var said smithy.APIError
				if err := call(t.Context(), config); !errors.As(err, &said) || said.ErrorCode() != want {
					t.Errorf("%d is said as %v, want %s", status, err, want)
				}
				if len(o.requests()) != 0 {
					t.Errorf("%d: the cloud got the request", status)
				}
			}
		})
	}
}

func TestProxyPassesRequestsToAWS(t *testing.T) {
	bodies := make(chan string, 1)
	o := plain(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(body)
		_, _ = io.WriteString(w, "<SetDesiredCapacityResponse></SetDesiredCapacityResponse>")
	})
	front, config := awsFront(t, o, hostile.Plan{})
	if err := services()["autoscaling"](t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if body := <-bodies; !strings.Contains(body, "Action=SetDesiredCapacity") || !strings.Contains(body, "DesiredCapacity=3") {
		t.Errorf("the cloud was asked %q", body)
	}
	if tally := front.Tally(); tally.Requests["SetDesiredCapacity"] != 1 || tally.Writes["SetDesiredCapacity"] != 1 {
		t.Errorf("tally %+v", tally)
	}
}

func TestChangesTellsWritesFromReads(t *testing.T) {
	form := func(values string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/?"+values, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	target := form("")
	target.Header.Set("X-Amz-Target", "AmazonSSM.GetParameter")
	get := form("")
	get.Method = http.MethodGet
	cases := map[string]struct {
		request *http.Request
		want    bool
	}{
		"a launch":                   {form("Action=LaunchInstances"), true},
		"a launch that is rehearsed": {form("Action=RunInstances&DryRun=true"), false},
		"a description":              {form("Action=DescribeInstances"), false},
		"a question to a target":     {target, false},
		"a question by its path":     {get, false},
		"a change by its path":       {form(""), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := hostile.Changes(c.request); got != c.want {
				t.Errorf("%s: got %t, want %t", hostile.Operation(c.request), got, c.want)
			}
		})
	}
}

func TestProxyDropsTheAnswerOfAWS(t *testing.T) {
	o := plain(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<SetDesiredCapacityResponse></SetDesiredCapacityResponse>")
	})
	front, config := awsFront(t, o, hostile.Plan{})
	front.Lose(1)
	err := services()["autoscaling"](t.Context(), config)
	if said := smithy.APIError(nil); err == nil || errors.As(err, &said) || len(o.requests()) != 1 {
		t.Errorf("got error %v, and the cloud got %d requests; want a closed connection after one", err, len(o.requests()))
	}
	if got, want := front.Env(), "AWS_ENDPOINT_URL="+front.URL; len(got) != 1 || got[0] != want {
		t.Errorf("its environment is %v, want %s", got, want)
	}
}
