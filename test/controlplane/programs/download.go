package programs

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"
)

//go:embed pins.json
var pinsJSON []byte

// pin is one file that may be downloaded instead of being built.
type pin struct {
	Name   string `json:"name"` // of the program
	URL    string `json:"url"`
	Size   int64  `json:"size"`             // of the file at URL, in bytes
	SHA256 string `json:"sha256"`           // of the file at URL, in hex
	Member string `json:"member,omitempty"` // the program's path, if the file is a .tar.gz
}

// pins lists the files by Kubernetes version and platform: "v1.37.2" and "linux/amd64".
type pins map[string]map[string][]pin

// pinnedFiles returns the files for this machine's platform, or nil if pins.json has none.
func pinnedFiles(version string) []pin {
	var all pins
	if err := json.Unmarshal(pinsJSON, &all); err != nil {
		panic("pins.json: " + err.Error()) // a test reads it
	}
	return all[version][runtime.GOOS+"/"+runtime.GOARCH]
}

// The limits of a download. They are short, because the user waits for the download.
const (
	dialTimeout  = 4 * time.Second
	stallTimeout = 30 * time.Second
	attempts     = 4
)

// downloadAll downloads the files into dir. Unfinished files stay in parts, and the next call continues them. A file is moved to dir
// and made executable only after its size and SHA-256 match its pin.
//
// Errors: a program has no pin, a server does not answer or has another file, writing failed, or ctx ended.
func downloadAll(ctx context.Context, files []pin, parts, dir string, log io.Writer) error {
	pinned := map[string]bool{}
	for _, f := range files {
		pinned[f.Name] = true
	}
	for _, name := range programNames() {
		if !pinned[name] {
			return fmt.Errorf("downloading %s: pins.json lists no such file for %s/%s", name, runtime.GOOS, runtime.GOARCH)
		}
	}
	if err := os.MkdirAll(parts, 0o755); err != nil {
		return fmt.Errorf("creating the download folder: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: dialTimeout,
	}}
	defer client.CloseIdleConnections()
	for _, f := range files {
		fmt.Fprintf(log, "downloading %s (%d MB)\n", f.URL, f.Size>>20)
		if err := f.install(ctx, client, parts, dir); err != nil {
			return fmt.Errorf("downloading %s: %w", f.URL, err)
		}
	}
	return os.RemoveAll(parts)
}

// install downloads the file, verifies it and moves the program to dir. The part of an earlier call may belong to another file. If the
// result is wrong, the whole file is downloaded again.
func (f pin) install(ctx context.Context, client *http.Client, parts, dir string) error {
	part := filepath.Join(parts, f.Name+".part")
	left, err := fileSize(part)
	if err != nil {
		return err
	}
	err = f.downloadVerified(ctx, client, part)
	if errors.Is(err, errOtherFile) && left > 0 {
		err = f.downloadVerified(ctx, client, part)
	}
	if err != nil {
		return err
	}
	program := filepath.Join(dir, f.Name)
	if f.Member != "" {
		return extract(part, f.Member, program)
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return err
	}
	return os.Rename(part, program)
}

var errOtherFile = errors.New("it was deleted and not executed")

// downloadVerified downloads the file to part and compares it with the pin. If they differ, it returns an error that wraps
// errOtherFile.
func (f pin) downloadVerified(ctx context.Context, client *http.Client, part string) error {
	if err := f.downloadComplete(ctx, client, part); err != nil {
		return err
	}
	sum, err := fileSum(part)
	if err != nil || sum == f.SHA256 {
		return err
	}
	return errors.Join(fmt.Errorf("its SHA-256 is %s, not %s: %w", sum, f.SHA256, errOtherFile), os.Remove(part))
}

// downloadComplete downloads until part has the size of the pin. After a cut connection, it requests the rest.
func (f pin) downloadComplete(ctx context.Context, client *http.Client, part string) error {
	var last error
	for range attempts {
		have, err := fileSize(part)
		if err != nil {
			return err
		}
		if have == f.Size {
			return nil
		}
		if have > f.Size {
			have = 0
		}
		var cut cutError
		if last = f.fetch(ctx, client, part, have); last != nil && !errors.As(last, &cut) {
			return last
		}
	}
	if last != nil {
		return last
	}
	return fmt.Errorf("its size is not %d bytes after %d attempts", f.Size, attempts)
}

// cutError is the error of a connection that ended early.
type cutError struct{ error }

// fetch requests the file from the offset on and appends the answer to part. If the server sends the whole file, fetch replaces the
// content of part.
func (f pin) fetch(ctx context.Context, client *http.Client, part string, offset int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return err
	}
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusOK:
		offset = 0
	case response.StatusCode != http.StatusPartialContent || offset == 0:
		return fmt.Errorf("the server answered %s", response.Status)
	}
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no data for %s", stallTimeout)) })
	defer stalled.Stop()
	body := &connectionReader{from: io.LimitReader(response.Body, f.Size-offset), alive: func() { stalled.Reset(stallTimeout) }}
	written, err := io.Copy(file, body)
	if body.err != nil {
		return cutError{body.err}
	}
	if err == nil && offset+written < f.Size {
		return cutError{io.ErrUnexpectedEOF}
	}
	if err == nil {
		err = file.Truncate(f.Size)
	}
	return errors.Join(err, file.Close())
}

// connectionReader reads from a connection. It keeps the connection's error, so that it can be distinguished from errors of the disk.
// It calls alive after each read.
type connectionReader struct {
	from  io.Reader
	alive func()
	err   error
}

func (b *connectionReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.alive()
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// extract writes one member of a .tar.gz to the path.
func extract(archive, member, to string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for entries := tar.NewReader(unzipped); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive has no %s", member)
		}
		if err != nil {
			return err
		}
		if path.Clean(header.Name) != member {
			continue
		}
		program, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
		if err != nil {
			return err
		}
		_, err = io.Copy(program, entries)
		return errors.Join(err, program.Close())
	}
}

func fileSum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fileSize returns the size of a file, or 0 if the file does not exist.
func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
