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

// TestUpgradeWithExpiredOrRevokedCredentials runs the cases in which credentials expire or are revoked during an upgrade.
func TestUpgradeWithExpiredOrRevokedCredentials(t *testing.T) {
	t.Parallel()
	shared := common.forTest(t)
	cases := map[string]func(*testing.T, *fixture.Fixture){
		"tokens last for seconds":         tokensExpire,
		"tokens are revoked":              tokensRevoked,
		"the login fails for a while":     loginFails,
		"cloud sessions last for seconds": sessionsExpire,
		"cloud sessions are revoked":      sessionsRevoked,
		"a cloud session ends for good before nodes are added": func(t *testing.T, shared *fixture.Fixture) {
			sessionEnds(t, shared, "penniless", phase(string(record.PhaseScaleUp)))
		},
		"a cloud session ends for good while nodes come up": func(t *testing.T, shared *fixture.Fixture) {
			sessionEnds(t, shared, "cut-short", func(e event) bool {
				return e.Type == "capacity" && strings.HasPrefix(e.Text, "group resized: desired 6")
			})
		},
		"a cloud session ends for good while a node drains": func(t *testing.T, shared *fixture.Fixture) {
			sessionEnds(t, shared, "bankrupt", nodeState(string(record.NodeDraining)))
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			inSample(t)
			t.Parallel()
			test(t, shared)
		})
	}
}

// loginAddress is the variable that makes this test binary a credential plugin. Its value is the address of the login.
const loginAddress = "NODEUPGRADE_TEST_LOGIN"

// logIn is the credential plugin for client-go and for the AWS SDKs. It prints the answer of the login.
func logIn(address string, out, errOut io.Writer) (code int) {
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

// login issues tokens that are valid for a time.
type login struct {
	*httptest.Server
	lasts time.Duration

	mu      sync.Mutex // guards the fields below
	good    map[string]time.Time
	issued  int
	refused int
	closed  bool
}

// The paths of a login, one for each kind of credentials.
const (
	forKubernetes = "/kubernetes"
	forAWS        = "/aws"
)

// openLogin starts a login whose tokens are valid for lasts, in whole seconds as in an ExecCredential.
func openLogin(t *testing.T, lasts time.Duration) *login {
	t.Helper()
	l := &login{lasts: lasts, good: map[string]time.Time{}}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

// ServeHTTP implements http.Handler.
func (l *login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, until, ok := l.issue()
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

func (l *login) issue() (token string, until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", time.Time{}, false
	}
	l.issued++
	token, until = fmt.Sprintf("token-%d", l.issued), time.Now().Add(l.lasts).Truncate(time.Second).UTC()
	l.good[token] = until
	return token, until, true
}

// admits reports whether the token is still valid.
func (l *login) admits(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := time.Now().Before(l.good[token])
	if !ok {
		l.refused++
	}
	return ok
}

// revoke makes all tokens invalid before they expire.
func (l *login) revoke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.good)
}

// setClosed closes the login for everybody, or opens it again.
func (l *login) setClosed(closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = closed
}

// checkUsed checks that at least so many tokens were issued, and logs how many requests were refused.
func (l *login) checkUsed(t *testing.T, tokens int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d tokens, %d requests refused", l.issued, l.refused)
	if l.issued < tokens {
		t.Errorf("%d tokens were used, want at least %d", l.issued, tokens)
	}
}

// admit makes the front before the cluster accept only the login's tokens. It returns the environment of a command that uses the
// front and gets its tokens from a plugin.
func (l *login) admit(t *testing.T, front *hostile.Front) (env []string) {
	t.Helper()
	front.Admit(l.admits)
	config, err := clientcmd.LoadFromFile(front.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: clientauth.SchemeGroupVersion.String(), Command: self(t), InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			Env: []clientcmdapi.ExecEnvVar{{Name: loginAddress, Value: l.URL + forKubernetes}},
		}}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return []string{"KUBECONFIG=" + path}
}

// self returns the path of this test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startLoggedIn starts the upgrade with the login's tokens for the API server, and behind a front that cuts watches every 4 s.
func (s *testCase) startLoggedIn(l *login) (*command, *hostile.Front) {
	s.t.Helper()
	f := s.fronts()
	f.cluster.Obey(hostile.Plan{CutWatches: 4 * time.Second})
	return startIn(s.t, s.Fixture, l.admit(s.t, f.cluster), s.args()...), f.cluster
}

// tokensExpire runs an upgrade that needs several tokens, one after another.
func tokensExpire(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "short-tokens", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := openLogin(t, 4*time.Second)
	c, front := s.startLoggedIn(l)
	c.end(0)
	s.checkDone()
	l.checkUsed(t, 3)
	if harms := front.Tally().Harms; len(harms) == 0 {
		t.Error("no watch was cut: none was opened anew with another token")
	}
}

// tokensRevoked revokes all tokens several times during an upgrade, each time right after a write of the record.
func tokensRevoked(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "revoked", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := openLogin(t, time.Hour)
	f := s.fronts()
	revokedBy(f.cluster, l)
	startIn(t, s.Fixture, l.admit(t, f.cluster), s.args()...).end(0)
	s.checkDone()
	l.checkRevoked(t)
}

// revocations is how often tokens are revoked during an upgrade.
const revocations = 5

// revokedBy revokes the tokens right after every second write of the record, and returns the environment of a command that uses
// the front.
func revokedBy(front *hostile.Front, l *login) (env []string) {
	front.Number(rec)
	for n := range revocations {
		front.After(1+2*n, l.revoke)
	}
	return front.Env()
}

// checkRevoked checks that each revocation affected at least one request.
func (l *login) checkRevoked(t *testing.T) {
	t.Helper()
	l.checkUsed(t, 1+revocations)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused < revocations {
		t.Errorf("%d requests were refused, want at least %d: nothing was tried", l.refused, revocations)
	}
}

// loginFails closes the login while a drain is blocked, until the command reports it. The command notices at the latest when it
// renews its lease, because it has no other requests then.
func loginFails(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "logged-out", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}}, stubborn())
	l := openLogin(t, 5*time.Second) // long enough for the first requests on a busy machine
	c, _ := s.startLoggedIn(l)
	blockedBy("stubborn")(s, c)
	l.setClosed(true)
	c.until("a word of it", func(e event) bool { return strings.Contains(e.Text, "no credentials for the API server") })
	l.setClosed(false)
	s.unblock("stubborn")
	c.end(0)
	s.checkDone()
}

// sessions returns the environment of a command whose AWS credentials come from the login. Its front refuses expired sessions.
func (s *testCase) sessions(l *login) []string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "config")
	text := fmt.Sprintf("[default]\ncredential_process = env %s=%s%s %s\n", loginAddress, l.URL, forAWS, self(s.t))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return append(s.refusing(l.admits).Env(), "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_CONFIG_FILE="+path)
}

// refusing returns a front before the cloud that refuses all sessions except those that are admitted.
func (s *testCase) refusing(admits func(token string) bool) *hostile.Front {
	s.t.Helper()
	front, err := hostile.AWS(s.t.Context(), s.Cloud.URL(), hostile.Plan{Harms: []hostile.Harm{{
		Share: 1, Status: hostile.SessionEnded, To: func(r *http.Request) bool { return !admits(r.Header.Get("X-Amz-Security-Token")) },
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return front
}

// sessionsExpire runs an upgrade that needs several sessions, one after another.
func sessionsExpire(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "sessions", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := openLogin(t, 4*time.Second)
	startIn(t, s.Fixture, s.sessions(l), s.args()...).end(0)
	s.checkDone()
	l.checkUsed(t, 3)
}

// sessionsRevoked revokes all sessions several times during an upgrade, each time right after a write of the record.
func sessionsRevoked(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "disowned", Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := openLogin(t, time.Hour)
	f := s.fronts()
	startIn(t, s.Fixture, append(s.sessions(l), revokedBy(f.cluster, l)...), s.args()...).end(0)
	s.checkDone()
	l.checkRevoked(t)
}

// sessionEnds runs an upgrade with credentials that cannot be renewed and become invalid. The upgrade stops, and the same command
// continues with new credentials.
func sessionEnds(t *testing.T, shared *fixture.Fixture, name string, when func(event) bool) {
	t.Helper()
	s := open(t, shared, fixture.Group{Name: name, Zones: []string{zoneA, zoneB}, Counts: []int{2, 1}})
	l := openLogin(t, time.Hour)
	old, _, _ := l.issue()
	front := s.refusing(l.admits)
	c := startIn(t, s.Fixture, append(front.Env(), "AWS_SESSION_TOKEN="+old), s.args()...)
	c.until("the moment", when)
	l.revoke()
	c.end(1)
	for _, part := range []string{"(ExpiredToken): the credentials have expired: sign in with aws sso login", " to continue"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	started := s.started()
	for _, node := range s.nodes() {
		if !slices.Contains(started, node.Name) {
			s.checkClean(&node)
		}
	}
	fresh, _, _ := l.issue()
	c = startIn(t, s.Fixture, append(front.Env(), "AWS_SESSION_TOKEN="+fresh), s.args()...)
	c.end(0)
	s.checkDone()
}
