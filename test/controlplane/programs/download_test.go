package programs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// content returns the content of a program. It is larger than the buffers of a connection, so that a cut connection leaves a part.
func content(name string) []byte { return bytes.Repeat([]byte(name+"\n"), 1<<20/len(name)) }

// publisher serves a file for each program.
type publisher struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string][]string // the Range headers by path
	// answer may answer a request instead of the publisher, and returns true if it did. count is 1 for the first request of a path.
	answer func(w http.ResponseWriter, r *http.Request, count int) bool
}

func startPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{requests: map[string][]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests[r.URL.Path] = append(p.requests[r.URL.Path], r.Header.Get("Range"))
		count := len(p.requests[r.URL.Path])
		p.mu.Unlock()
		if p.answer != nil && p.answer(w, r, count) {
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.file(strings.TrimPrefix(r.URL.Path, "/"))))
	}))
	t.Cleanup(p.Close)
	return p
}

// file returns the program or, for etcd, the archive in which etcd is published.
func (p *publisher) file(name string) []byte {
	if name != "etcd" {
		return content(name)
	}
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	entries := tar.NewWriter(zipped)
	for _, entry := range []string{"etcd-v3/README.md", "etcd-v3/etcd"} {
		text := content(filepath.Base(entry))
		_ = entries.WriteHeader(&tar.Header{Name: "./" + entry, Size: int64(len(text)), Mode: 0o755})
		_, _ = entries.Write(text)
	}
	_, _ = entries.Close(), zipped.Close()
	return archive.Bytes()
}

func (p *publisher) pins() []pin {
	var pins []pin
	for _, name := range programNames() {
		data := p.file(name)
		sum := sha256.Sum256(data)
		f := pin{Name: name, URL: p.URL + "/" + name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		if name == "etcd" {
			f.Member = "etcd-v3/etcd"
		}
		pins = append(pins, f)
	}
	return pins
}

// sendHalf sends only the first half of a file and closes the connection.
func (p *publisher) sendHalf(w http.ResponseWriter, r *http.Request) {
	data := p.file(strings.TrimPrefix(r.URL.Path, "/"))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data[:len(data)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// checkComplete checks that dir has all programs, that they are executable, and that no part is left.
func checkComplete(t *testing.T, dir, parts string) {
	t.Helper()
	for _, name := range programNames() {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(data, content(name)) {
			t.Errorf("%s has %d bytes, %v, want those of the publisher", name, len(data), err)
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable: %v", name, err)
		}
	}
	if isDir(parts) {
		t.Error("the folder of the parts is still there")
	}
}

func TestDownloadsAreVerified(t *testing.T) {
	const victim = "/kube-scheduler"
	cases := map[string]struct {
		answer func(p *publisher) func(w http.ResponseWriter, r *http.Request, count int) bool
		pins   func([]pin)
		prep   func(t *testing.T, parts string)
		want   string // a part of the error; "" for none
	}{
		"everything is there": {},
		"the connection is cut once": {answer: func(p *publisher) func(http.ResponseWriter, *http.Request, int) bool {
			return func(w http.ResponseWriter, r *http.Request, count int) bool {
				if r.URL.Path == victim && count == 1 {
					p.sendHalf(w, r)
				}
				return false
			}
		}},
		"the connection is cut every time": {answer: func(p *publisher) func(http.ResponseWriter, *http.Request, int) bool {
			return func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if r.URL.Path == victim {
					w.Header().Set("Content-Length", "10")
					panic(http.ErrAbortHandler)
				}
				return false
			}
		}, want: "EOF"},
		"the server has another file": {pins: func(pins []pin) { pins[3].SHA256 = strings.Repeat("0", 64) }, want: "it was deleted and not executed"},
		"the server has no such file": {answer: func(*publisher) func(http.ResponseWriter, *http.Request, int) bool {
			return func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if r.URL.Path == victim {
					http.NotFound(w, r)
				}
				return r.URL.Path == victim
			}
		}, want: "404 Not Found"},
		"the server has a longer file":  {pins: func(pins []pin) { pins[3].Size-- }, want: "SHA-256"},
		"the archive lacks the program": {pins: func(pins []pin) { pins[0].Member = "etcd-v3/other" }, want: "no etcd-v3/other"},
		"a program has no pin":          {pins: func(pins []pin) { pins[3].Name = "other" }, want: "pins.json lists no such file"},
		"an old part is of another file": {prep: func(t *testing.T, parts string) {
			t.Helper()
			writeFiles(t, parts, map[string]string{"kube-scheduler.part": "something else"})
		}},
		"the disk is full": {prep: func(t *testing.T, parts string) {
			t.Helper()
			if _, err := os.Stat("/dev/full"); err != nil {
				t.Skip("this system has no /dev/full")
			}
			if err := errors.Join(os.MkdirAll(parts, 0o755), os.Symlink("/dev/full", filepath.Join(parts, "kube-scheduler.part"))); err != nil {
				t.Fatal(err)
			}
		}, want: syscall.ENOSPC.Error()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, dir := startPublisher(t), t.TempDir()
			parts := filepath.Join(t.TempDir(), "parts")
			pins := p.pins()
			if c.answer != nil {
				p.answer = c.answer(p)
			}
			if c.pins != nil {
				c.pins(pins)
			}
			if c.prep != nil {
				c.prep(t, parts)
			}
			err := downloadAll(t.Context(), pins, parts, dir, io.Discard)
			if c.want == "" && err == nil {
				checkComplete(t, dir, parts)
				return
			}
			if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one that says %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "kube-scheduler")); err == nil && !strings.Contains(c.want, "etcd") {
				t.Error("the program was installed although the download failed")
			}
		})
	}
}

func TestDownloadRequestsTheRestAfterDisconnect(t *testing.T) {
	p, dir := startPublisher(t), t.TempDir()
	p.answer = func(w http.ResponseWriter, r *http.Request, count int) bool {
		if r.URL.Path == "/kubectl" && count == 1 {
			p.sendHalf(w, r)
		}
		return false
	}
	parts := filepath.Join(t.TempDir(), "parts")
	if err := downloadAll(t.Context(), p.pins(), parts, dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	checkComplete(t, dir, parts)
	if asked := p.requests["/kubectl"]; len(asked) != 2 || !strings.HasPrefix(asked[1], "bytes=") {
		t.Errorf("the requested ranges are %q, want the whole file and then the rest", asked)
	}
}

// TestInterruptedDownloadIsContinued cancels the first call in the middle of a file, as Ctrl-C does.
func TestInterruptedDownloadIsContinued(t *testing.T) {
	p, dir := startPublisher(t), t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	p.answer = func(w http.ResponseWriter, r *http.Request, count int) bool {
		if r.URL.Path != "/kubectl" || count > 1 {
			return false
		}
		data := p.file("kubectl")
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data[:len(data)/2])
		_ = http.NewResponseController(w).Flush()
		interrupt()
		<-r.Context().Done()
		return true
	}
	parts := filepath.Join(t.TempDir(), "parts")
	if err := downloadAll(ctx, p.pins(), parts, dir, io.Discard); !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want %v", err, context.Canceled)
	}
	if err := downloadAll(t.Context(), p.pins(), parts, dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	checkComplete(t, dir, parts)
}

func TestProcessesThatCallTogetherDownloadOnce(t *testing.T) {
	p := startPublisher(t)
	dir := filepath.Join(t.TempDir(), "programs")
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			err := fillFolder(t.Context(), dir, io.Discard, func(unfinished string) error {
				return downloadAll(t.Context(), p.pins(), dir+".parts", unfinished, io.Discard)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	checkComplete(t, dir, dir+".parts")
	for path, asked := range p.requests {
		if len(asked) != 1 {
			t.Errorf("%s was requested %d times, want once", path, len(asked))
		}
	}
}

// TestProgramsAreBuiltIfDownloadFails checks that the programs are built if the server refuses connections.
func TestProgramsAreBuiltIfDownloadFails(t *testing.T) {
	p := startPublisher(t)
	pins := p.pins()
	p.Close()
	g := helloJob(t)
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "programs")
	err := fillFolder(t.Context(), dir, &log, func(unfinished string) error {
		g.output = unfinished
		return downloadOrBuild(t.Context(), pins, dir+".parts", &log, g)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "hello")); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "connection refused") || !strings.Contains(log.String(), "building the control plane instead") {
		t.Errorf("log is %q: it does not give the reason for the build", log.String())
	}
}

// TestPinnedProgramsHaveChecksumAndURL checks pins.json: each platform has every program, with a checksum and an https URL.
func TestPinnedProgramsHaveChecksumAndURL(t *testing.T) {
	var all pins
	if err := json.Unmarshal(pinsJSON, &all); err != nil {
		t.Fatal(err)
	}
	for version, platforms := range all {
		for platform, files := range platforms {
			listed := map[string]bool{}
			for _, f := range files {
				listed[f.Name] = true
				if _, err := hex.DecodeString(f.SHA256); err != nil || len(f.SHA256) != 64 || f.Size <= 0 || !strings.HasPrefix(f.URL, "https://") {
					t.Errorf("%s %s: %+v is not a pin", version, platform, f)
				}
			}
			for _, name := range programNames() {
				if !listed[name] {
					t.Errorf("%s %s lacks %s", version, platform, name)
				}
			}
		}
	}
}
