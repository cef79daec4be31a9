package container

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	cases := map[string]struct {
		want time.Duration
		text string
	}{
		"3600s":          {time.Hour, "3600s"},
		"0s":             {0, "0s"},
		"3.5s":           {3500 * time.Millisecond, "3.5s"},
		"0.000000001s":   {1, "0.000000001s"},
		"-1.500s":        {-1500 * time.Millisecond, "-1.5s"},
		"604800s":        {7 * 24 * time.Hour, "604800s"},
		"315576000000s":  {math.MaxInt64, "9223372036.854775807s"}, // Google's longest: 10,000 years
		"-315576000000s": {-math.MaxInt64, "-9223372036.854775807s"},
	}
	for text, c := range cases {
		t.Run(text, func(t *testing.T) {
			var got Duration
			if err := json.Unmarshal([]byte(`"`+text+`"`), &got); err != nil || time.Duration(got) != c.want {
				t.Errorf("got %v, %v", time.Duration(got), err)
			}
			if written, err := json.Marshal(got); err != nil || string(written) != `"`+c.text+`"` {
				t.Errorf("wrote %s, %v", written, err)
			}
		})
	}
	for _, text := range []string{`"3600"`, `"1h"`, `"PT1H"`, `"s"`, `"-s"`, `"1e3s"`, `"1.0000000001s"`, `"1..2s"`, `"--1s"`, `" 1s"`, `3600`, `{}`} {
		var got Duration
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s was read as %v", text, time.Duration(got))
		}
	}
}

func TestZeroIsSentAndNilIsNot(t *testing.T) {
	zero, no := int32(0), false
	update := UpdateNodePoolRequest{
		NodeVersion: "1.34", ImageType: "COS_CONTAINERD",
		UpgradeSettings: &UpgradeSettings{MaxSurge: &zero},
		NodeDrainConfig: &NodeDrainConfig{RespectPDBDuringNodePoolDeletion: &no},
	}
	got, err := json.Marshal(update)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"nodeVersion":"1.34","imageType":"COS_CONTAINERD","upgradeSettings":{"maxSurge":0},"nodeDrainConfig":{"respectPdbDuringNodePoolDeletion":false}}`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
	if got, _ := json.Marshal(RollbackNodePoolUpgradeRequest{}); string(got) != `{"respectPdb":false}` {
		t.Errorf("got %s", got)
	}
}

func TestUnknownValuesAreKept(t *testing.T) {
	const text = `{"name":"web","status":"DEFROSTING","somethingNew":{"a":[1]},
		"upgradeSettings":{"strategy":"RAINBOW"},
		"autoscaling":{"enabled":true,"locationPolicy":"NEAR"},
		"conditions":[{"code":"MELTED","canonicalCode":"NEW"}],
		"updateInfo":{"blueGreenInfo":{"phase":"WAITING_TO_DRAIN_BLUE_POOL"}}}`
	var pool NodePool
	if err := json.Unmarshal([]byte(text), &pool); err != nil {
		t.Fatal(err)
	}
	if pool.Status != "DEFROSTING" || pool.UpgradeSettings.Strategy != "RAINBOW" || pool.Autoscaling.LocationPolicy != "NEAR" ||
		pool.Conditions[0].Code != "MELTED" || pool.UpdateInfo.BlueGreenInfo.Phase != PhaseWaitingToDrainBluePool {
		t.Errorf("got %+v", pool)
	}
	if pool.UpgradeSettings.MaxSurge != nil || pool.Config != nil {
		t.Error("missing fields are not nil")
	}
}

// TestOperationsAreRead reads operations in the forms that GKE sends.
func TestOperationsAreRead(t *testing.T) {
	const text = `{"name":"operation-1","operationType":"UPGRADE_NODES","status":"RUNNING","zone":"us-east1",
		"startTime":"2024-04-01T12:34:56.123456Z","endTime":"","detail":"x",
		"targetLink":"https://container.googleapis.com/v1/projects/123456789012/locations/us-east1/clusters/c/nodePools/n",
		"progress":{"metrics":[{"name":"UPGRADE_STAGE","stringValue":"DRAINING_BLUE_POOL"},{"name":"nodes done","intValue":"9007199254740993"},
			{"name":"progress","doubleValue":0.56},{"name":"none","intValue":null}],"stages":[{"name":"s","status":"NEW"}]}}`
	var got Operation
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	metrics := got.Progress.Metrics
	if metrics[0].StringValue != "DRAINING_BLUE_POOL" || *metrics[1].IntValue != 9007199254740993 || *metrics[2].DoubleValue != 0.56 || metrics[3].IntValue != nil {
		t.Errorf("got %+v", metrics)
	}
	if got.Where() != "us-east1" || !got.EndTime.IsZero() || got.StartTime.Year() != 2024 || got.Progress.Stages[0].Status != "NEW" {
		t.Errorf("got %+v", got)
	}
	got.Location = "us-east1-b"
	if got.Where() != "us-east1-b" {
		t.Errorf("got %s", got.Where())
	}
	if err := json.Unmarshal([]byte(`{"startTime":"yesterday"}`), &got); err == nil || !strings.Contains(err.Error(), "yesterday") {
		t.Errorf("got %v", err)
	}
}
