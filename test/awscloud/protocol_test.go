package awscloud

// These tests connect the real SDK clients directly to the codecs.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	as "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// answering returns a client configuration whose server answers every request with body. The other result contains the form
// values of the last request.
func answering(t testing.TB, contentType string, body func(form url.Values) []byte) (aws.Config, *url.Values) {
	t.Helper()
	sent := &url.Values{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		*sent, _ = url.ParseQuery(string(raw))
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body(*sent))
	}))
	t.Cleanup(srv.Close)
	return aws.Config{
		HTTPClient: &PlainBodies{}, Region: "us-east-1", BaseEndpoint: aws.String(srv.URL), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
	}, sent
}

// method calls a client's method by name with an input and returns its output.
func method(client any, name string, in reflect.Value) (reflect.Value, error) {
	out := reflect.ValueOf(client).MethodByName(name).Call([]reflect.Value{reflect.ValueOf(context.Background()), in})
	err, _ := out[1].Interface().(error)
	return out[0], err
}

// shapes returns the input and output types of a client's method.
func shapes(client any, name string) (in, out reflect.Type) {
	m := reflect.ValueOf(client).MethodByName(name).Type()
	return m.In(1).Elem(), m.Out(0).Elem()
}

// difference returns the first line in which two structures differ as JSON.
func difference(got, want any) string {
	a, errA := json.MarshalIndent(got, "", " ")
	b, errB := json.MarshalIndent(want, "", " ")
	if errA != nil || errB != nil {
		return fmt.Sprintf("got %+v, want %+v", got, want)
	}
	lines := strings.Split(string(b), "\n")
	for i, line := range strings.Split(string(a), "\n") {
		if i >= len(lines) || line != lines[i] {
			return fmt.Sprintf("line %d: got %s, want %s", i, line, lines[min(i, len(lines)-1)])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", strings.Count(string(a), "\n"), len(lines))
}

// filled returns a new value of a structure with every field set.
func filled(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	n := 0
	fill(v.Elem(), &n)
	return v
}

// TestQueryProtocolKeepsEveryField checks every modelled operation of Auto Scaling. The stand-in reads what the SDK wrote, and the SDK
// reads what the stand-in wrote.
func TestQueryProtocolKeepsEveryField(t *testing.T) {
	for op := range autoscalingOperations() {
		t.Run(op, func(t *testing.T) {
			var answer any
			cfg, sent := answering(t, "text/xml", func(form url.Values) []byte {
				return encodeQuery(form.Get("Action"), "http://autoscaling.amazonaws.com/doc/2011-01-01/", "id", answer)
			})
			client := as.NewFromConfig(cfg)
			inType, outType := shapes(client, op)
			in, want := filled(inType), filled(outType)
			answer = want.Interface()

			got, err := method(client, op, in)
			if err != nil {
				t.Fatal(err)
			}
			decoded := reflect.New(inType)
			if err := decodeQuery(*sent, decoded.Interface()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(decoded.Interface(), in.Interface()) {
				t.Error("request: " + difference(decoded.Interface(), in.Interface()))
			}
			metadata := got.Elem().FieldByName("ResultMetadata")
			metadata.SetZero() // the SDK adds metadata to each output
			if outType.NumField() > 2 && !reflect.DeepEqual(got.Interface(), want.Interface()) {
				t.Error("answer: " + difference(got.Interface(), want.Interface()))
			}
		})
	}
}

func TestQueryProtocolDistinguishesEmptyFromAbsent(t *testing.T) {
	var answer *as.DescribeAutoScalingGroupsOutput
	cfg, sent := answering(t, "text/xml", func(url.Values) []byte {
		return encodeQuery("DescribeAutoScalingGroups", "ns", "id", answer)
	})
	answer = &as.DescribeAutoScalingGroupsOutput{AutoScalingGroups: []at.AutoScalingGroup{
		{AutoScalingGroupName: aws.String(""), Instances: []at.Instance{}},
	}}
	got, err := as.NewFromConfig(cfg).DescribeAutoScalingGroups(t.Context(), &as.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.AutoScalingGroups, answer.AutoScalingGroups) {
		t.Errorf("got %+v, want %+v", got.AutoScalingGroups, answer.AutoScalingGroups)
	}
	var in as.DescribeAutoScalingGroupsInput
	if err := decodeQuery(*sent, &in); err != nil || in.AutoScalingGroupNames == nil || in.Filters != nil {
		t.Errorf("decoded %+v, %v: want an empty list of names and no filters", in, err)
	}
}

func TestDecodeQueryRefusesUnknownParameters(t *testing.T) {
	for name, tc := range map[string]struct{ query, want string }{
		"an unknown parameter":  {"Colour=red", `"Colour" is unknown`},
		"an unknown member":     {"LaunchTemplate.Colour=red", `"LaunchTemplate.Colour" is unknown`},
		"a gap in a list":       {"AvailabilityZones.member.1=a&AvailabilityZones.member.3=c", `"AvailabilityZones.member.3" is unknown`},
		"text for a list":       {"AvailabilityZones=a", `"AvailabilityZones" is unknown`},
		"text for a structure":  {"LaunchTemplate=a", `"LaunchTemplate" is unknown`},
		"a word for a number":   {"MinSize=many", "invalid syntax"},
		"a number out of range": {"MinSize=4294967296", "out of range"},
		"a word for a truth":    {"CapacityRebalance=yes", "must be true or false"},
		"an empty enum":         {"DeletionProtection=", "must be one of"},
	} {
		t.Run(name, func(t *testing.T) {
			form, err := url.ParseQuery(tc.query)
			if err != nil {
				t.Fatal(err)
			}
			err = decodeQuery(form, &as.UpdateAutoScalingGroupInput{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// FuzzDecodeQuery checks that decodeQuery decodes or refuses any form. If the SDK encodes the decoded input again, decodeQuery
// must return the same input.
func FuzzDecodeQuery(f *testing.F) {
	for _, seed := range []string{
		"AutoScalingGroupName=g&MinSize=1&MaxSize=5&DesiredCapacity=3",
		"AutoScalingGroupName=g&LaunchTemplate.LaunchTemplateId=lt-1&LaunchTemplate.Version=%24Latest",
		"AutoScalingGroupName=g&MixedInstancesPolicy.LaunchTemplate.Overrides.member.1.InstanceType=m5.large&MixedInstancesPolicy.LaunchTemplate.Overrides.member.2.WeightedCapacity=2",
		"AutoScalingGroupName=g&AvailabilityZones=&TerminationPolicies.member.1=",
		"AutoScalingGroupName=g&AvailabilityZones.member.2=x",
		"AutoScalingGroupName=&MinSize=-1&CapacityRebalance=true",
	} {
		f.Add(seed)
	}
	cfg, sent := answering(f, "text/xml", func(url.Values) []byte {
		return encodeQuery("UpdateAutoScalingGroup", "ns", "id", &as.UpdateAutoScalingGroupOutput{})
	})
	client := as.NewFromConfig(cfg)
	f.Fuzz(func(t *testing.T, query string) {
		form, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		var in, again as.UpdateAutoScalingGroupInput
		if decodeQuery(form, &in) != nil {
			return
		}
		if _, err := client.UpdateAutoScalingGroup(t.Context(), &in); err != nil {
			return // a member that the SDK requires is missing
		}
		if err := decodeQuery(*sent, &again); err != nil {
			t.Fatalf("%q: sent again as %q: %v", query, sent.Encode(), err)
		}
		if !reflect.DeepEqual(in, again) {
			t.Errorf("%q: got %+v, want %+v", query, again, in)
		}
	})
}

// TestJSONProtocolsRoundTrip checks every modelled operation of EKS and SSM, with every field of its answer.
func TestJSONProtocolsRoundTrip(t *testing.T) {
	var answer serializable
	cfg, _ := answering(t, "application/json", func(url.Values) []byte {
		body, err := encodeJSON(answer)
		if err != nil {
			t.Error(err)
		}
		return body
	})
	clients := map[any][]string{
		eks.NewFromConfig(cfg): {"DescribeCluster", "ListNodegroups", "DescribeNodegroup"},
		ssm.NewFromConfig(cfg): {"GetParameter", "GetParameters"},
	}
	for client, ops := range clients {
		for _, op := range ops {
			t.Run(op, func(t *testing.T) {
				inType, outType := shapes(client, op)
				want := filled(outType)
				answer = want.Interface().(serializable)
				got, err := method(client, op, plain(inType))
				if err != nil {
					t.Fatal(err)
				}
				got.Elem().FieldByName("ResultMetadata").SetZero()
				if !reflect.DeepEqual(got.Interface(), want.Interface()) {
					t.Error(difference(got.Interface(), want.Interface()))
				}
			})
		}
	}
}

// plain returns an input with "x", which is valid in a path, in every string.
func plain(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	for i := range t.NumField() {
		f := v.Elem().Field(i)
		if !f.CanInterface() {
			continue
		}
		switch f.Interface().(type) {
		case *string:
			f.Set(reflect.ValueOf(aws.String("x")))
		case []string:
			f.Set(reflect.ValueOf([]string{"x"}))
		}
	}
	return v
}

// fill sets every field of an SDK structure to a different value. Unions and documents stay nil.
func fill(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_800_000_000+int64(*next), 250_000_000).UTC()))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "ResultMetadata" {
				fill(v.Field(i), next)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k, next)
		fill(e, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.String:
		v.SetString("text <&\"'> " + strconv.Itoa(*next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Float64:
		v.SetFloat(float64(*next) + 0.5)
	}
}
