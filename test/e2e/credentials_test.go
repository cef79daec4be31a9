package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauth "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/hostile"
)

// TestUpgradeFinishesAfterCredentialsExpireOrAreRevoked: if credentials cannot be renewed, the same command with new ones finishes the
// upgrade.
func TestUpgradeFinishesAfterCredentialsExpireOrAreRevoked(t *testing.T) {
	t.Parallel()
	shared := commonFixture.forTest(t)
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"tokens last for seconds":         testTokensExpire,
		"tokens are revoked":              testTokensRevoked,
		"the login fails for a while":     testLoginFails,
		"cloud sessions last for seconds": testSessionsExpire,
		"cloud sessions are revoked":      testSessionsRevoked,
		"a cloud session ends for good before nodes are added": func(t *testing.T, shared *fixture.Fixture) {
			testSessionEnds(t, shared, "penniless", phaseBegan(string(record.PhaseScaleUp)))
		},
		"a cloud session ends for good while nodes come up": func(t *testing.T, shared *fixture.Fixture) {
			testSessionEnds(t, shared, "cut-short", func(e event) bool {
				return e.Type == "capacity" && strings.HasPrefix(e.Text, "group resized: desired 6")
			})
		},
		"a cloud session ends for good while a node drains": func(t *testing.T, shared *fixture.Fixture) {
			testSessionEnds(t, shared, "bankrupt", nodeReached(string(record.NodeDraining)))
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			skipUnlessSampled(t)
			t.Parallel()
			test(t, shared)
		})
	}
}

// loginAddress is the environment variable that makes this test binary a credential plugin. Its value is the URL of the loginServer.
const loginAddress = "NODEUPGRADE_TEST_LOGIN"

// runCredentialPlugin is the credential plugin for client-go and for the AWS SDKs. It prints the answer of the loginServer.
func runCredentialPlugin(address string, out, errOut io.Writer) (code int) {
	response, err := http.Get(address)
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		out, code = errOut, 1
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		code = 1
	}
	return code
}

// loginServer issues tokens that expire after lifetime.
type loginServer struct {
	*httptest.Server
	lifetime time.Duration

	mu         sync.Mutex // guards the fields below
	validUntil map[string]time.Time
	issued     int
	refused    int
	closed     bool
}

// The paths of a loginServer, one for each kind of credentials.
const (
	forKubernetes = "/kubernetes"
	forAWS        = "/aws"
)

// startLogin starts a loginServer. The lifetime of its tokens is in whole seconds, as in an ExecCredential.
func startLogin(t *testing.T, lifetime time.Duration) *loginServer {
	t.Helper()
	l := &loginServer{lifetime: lifetime, validUntil: map[string]time.Time{}}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

// ServeHTTP implements http.Handler.
func (l *loginServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, until, ok := l.issueToken()
	if !ok {
		http.Error(w, "the session has expired: run sso login", http.StatusForbidden)
		return
	}
	var answer any = map[string]any{
		"Version": 1, "AccessKeyId": "AKIAIOSFODNN7EXAMPLE", "SecretAccessKey": "secret", "SessionToken": token, "Expiration": until,
	}
	if r.URL.Path == forKubernetes {
		answer = clientauth.ExecCredential{
			TypeMeta: metav1.TypeMeta{APIVersion: clientauth.SchemeGroupVersion.String(), Kind: "ExecCredential"},
			Status:   &clientauth.ExecCredentialStatus{Token: token, ExpirationTimestamp: &metav1.Time{Time: until}},
		}
	}
	_ = json.NewEncoder(w).Encode(answer) // a client that has disconnected needs no answer
}

func (l *loginServer) issueToken() (token string, until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", time.Time{}, false
	}
	l.issued++
	token, until = fmt.Sprintf("token-%d", l.issued), time.Now().Add(l.lifetime).Truncate(time.Second).UTC()
	l.validUntil[token] = until
	return token, until, true
}

// authorize reports whether the token is still valid. It counts the refused requests.
func (l *loginServer) authorize(token string) (authorized bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := time.Now().Before(l.validUntil[token])
	if !ok {
		l.refused++
	}
	return ok
}

// revokeAll makes all issued tokens invalid.
func (l *loginServer) revokeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.validUntil)
}

// setClosed makes the login refuse all users, or accept them again.
func (l *loginServer) setClosed(closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = closed
}

// checkIssued checks the minimum number of issued tokens, and logs how many requests were refused.
func (l *loginServer) checkIssued(t *testing.T, tokens int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d tokens, %d requests refused", l.issued, l.refused)
	if l.issued < tokens {
		t.Errorf("%d tokens were used, want at least %d", l.issued, tokens)
	}
}

// requireTokens makes the front of the cluster accept only the login's tokens. It returns the environment of a command that uses the
// front and gets its tokens from the credential plugin.
func (l *loginServer) requireTokens(t *testing.T, front *hostile.Front) (env []string) {
	t.Helper()
	front.Admit(l.authorize)
	config, err := clientcmd.LoadFromFile(front.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: clientauth.SchemeGroupVersion.String(), Command: testBinary(t), InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			Env: []clientcmdapi.ExecEnvVar{{Name: loginAddress, Value: l.URL + forKubernetes}},
		}}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return []string{"KUBECONFIG=" + path}
}

// testBinary returns the path of this test binary.
func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startLoggedIn starts the upgrade with the login's tokens for the API server, through a front that cuts watches every 4 s.
func (s *testCase) startLoggedIn(l *loginServer) (*command, *hostile.Front) {
	s.t.Helper()
	f := s.openFronts()
	f.cluster.SetPlan(hostile.Plan{CutWatches: 4 * time.Second})
	return startWithEnv(s.t, s.Fixture, l.requireTokens(s.t, f.cluster), s.upgradeArgs()...), f.cluster
}

// testTokensExpire runs an upgrade that needs several tokens, one after another.
func testTokensExpire(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "short-tokens", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := startLogin(t, 4*time.Second)
	c, front := s.startLoggedIn(l)
	c.awaitExit(0)
	s.checkUpgraded()
	l.checkIssued(t, 3)
	if harms := front.Tally().Harms; len(harms) == 0 {
		t.Error("no watch was cut, so no watch was opened again with another token")
	}
}

// testTokensRevoked revokes all tokens several times during an upgrade, each time right after a write of the record.
func testTokensRevoked(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "revoked", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := startLogin(t, time.Hour)
	f := s.openFronts()
	revokeAfterWrites(f.cluster, l)
	startWithEnv(t, s.Fixture, l.requireTokens(t, f.cluster), s.upgradeArgs()...).awaitExit(0)
	s.checkUpgraded()
	l.checkRevocations(t)
}

// revocations is how often tokens are revoked during an upgrade.
const revocations = 5

// revokeAfterWrites makes the front revoke all tokens after every second write of the record. It returns the environment of a command
// that uses the front.
func revokeAfterWrites(front *hostile.Front, l *loginServer) (env []string) {
	front.Number(isRecordRequest)
	for n := range revocations {
		front.After(1+2*n, l.revokeAll)
	}
	return front.Env()
}

// checkRevocations checks that each revocation affected at least one request.
func (l *loginServer) checkRevocations(t *testing.T) {
	t.Helper()
	l.checkIssued(t, 1+revocations)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused < revocations {
		t.Errorf("%d requests were refused, want at least %d", l.refused, revocations)
	}
}

// testLoginFails closes the login while a drain is blocked, until the command reports this. The command notices the failure at the
// latest when it renews its lease.
func testLoginFails(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "logged-out", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}}, stubbornWorkload())
	l := startLogin(t, 5*time.Second) // long enough for the first requests on a busy machine
	c, _ := s.startLoggedIn(l)
	awaitDrainBlockedBy("stubborn")(s, c)
	l.setClosed(true)
	c.awaitEvent("a report of the failed login", func(e event) bool { return strings.Contains(e.Text, "no credentials for the API server") })
	l.setClosed(false)
	s.deleteBudget("stubborn")
	c.awaitExit(0)
	s.checkUpgraded()
}

// sessionEnv returns the environment of a command whose AWS credentials come from the login. The command uses a front of the cloud
// that refuses expired sessions.
func (s *testCase) sessionEnv(l *loginServer) []string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "config")
	text := fmt.Sprintf("[default]\ncredential_process = env %s=%s%s %s\n", loginAddress, l.URL, forAWS, testBinary(s.t))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return append(s.openRejectingFront(l.authorize).Env(), "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_CONFIG_FILE="+path)
}

// openRejectingFront opens a front of the cloud that refuses all sessions for which admits returns false.
func (s *testCase) openRejectingFront(admits func(token string) bool) *hostile.Front {
	s.t.Helper()
	front, err := hostile.AWS(s.t.Context(), s.Cloud.URL(), hostile.Plan{Harms: []hostile.Harm{{
		Share: 1, Status: hostile.SessionEnded, To: func(r *http.Request) bool { return !admits(r.Header.Get("X-Amz-Security-Token")) },
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return front
}

// testSessionsExpire runs an upgrade that needs several sessions, one after another.
func testSessionsExpire(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "sessions", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := startLogin(t, 4*time.Second)
	startWithEnv(t, s.Fixture, s.sessionEnv(l), s.upgradeArgs()...).awaitExit(0)
	s.checkUpgraded()
	l.checkIssued(t, 3)
}

// testSessionsRevoked revokes all sessions several times during an upgrade, each time right after a write of the record.
func testSessionsRevoked(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "disowned", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := startLogin(t, time.Hour)
	f := s.openFronts()
	startWithEnv(t, s.Fixture, append(s.sessionEnv(l), revokeAfterWrites(f.cluster, l)...), s.upgradeArgs()...).awaitExit(0)
	s.checkUpgraded()
	l.checkRevocations(t)
}

// testSessionEnds runs an upgrade with credentials that become invalid and cannot be renewed. The upgrade must stop. The same command
// with new credentials must finish it.
func testSessionEnds(t *testing.T, shared *fixture.Fixture, name string, when func(event) bool) {
	t.Helper()
	s := openCase(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := startLogin(t, time.Hour)
	old, _, _ := l.issueToken()
	front := s.openRejectingFront(l.authorize)
	c := startWithEnv(t, s.Fixture, append(front.Env(), "AWS_SESSION_TOKEN="+old), s.upgradeArgs()...)
	c.awaitEvent("the event at which the session ends", when)
	l.revokeAll()
	c.awaitExit(1)
	for _, part := range []string{"(ExpiredToken): the credentials have expired: sign in with aws sso login", " to continue"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	started := s.startedNodes()
	for _, node := range s.nodes() {
		if !slices.Contains(started, node.Name) {
			s.checkNoMarks(&node)
		}
	}
	fresh, _, _ := l.issueToken()
	c = startWithEnv(t, s.Fixture, append(front.Env(), "AWS_SESSION_TOKEN="+fresh), s.upgradeArgs()...)
	c.awaitExit(0)
	s.checkUpgraded()
}
