package dump

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	gzipMagic = "\x1f\x8b"
	utf8Mark  = "\xef\xbb\xbf"
	// sniffed is how many bytes are looked at to tell the format.
	sniffed = 512
	// readAhead is how much a reader above the meter may have taken in beyond the object it is at,
	// in bytes.
	readAhead = 64 << 10
)

// meter hands the unpacked input on and ends it where it grows beyond what a dump can be.
type meter struct {
	in     *bufio.Reader
	limits Limits
	total  int64
	// marked is where the object begins that is being read.
	marked int64
}

// openInput unpacks the input if it is packed. It returns an error for input that is empty, no gzip
// after all, or packed twice.
func openInput(r io.Reader, limits Limits) (*meter, error) {
	in := bufio.NewReaderSize(r, readAhead)
	if peekMagic(in) != gzipMagic {
		return &meter{in: in, limits: limits}, nil
	}
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return nil, explainGzip(err)
	}
	in = bufio.NewReaderSize(unpacked, readAhead)
	if peekMagic(in) == gzipMagic {
		return nil, errors.New("gzip inside gzip: unpack it with gunzip first")
	}
	return &meter{in: in, limits: limits}, nil
}

func peekMagic(in *bufio.Reader) string {
	head, _ := in.Peek(len(gzipMagic)) // an error shows again when it is read
	return string(head)
}

func explainGzip(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("gzip data ends too early: the file was cut short: write it again with %s | gzip", Command)
	}
	return fmt.Errorf("unpacking: %w: write it again with %s | gzip", err, Command)
}

// Read implements io.Reader. It takes in little at a time, so that a mark is never far behind.
func (m *meter) Read(p []byte) (int, error) {
	if m.total > m.limits.Bytes {
		return 0, fmt.Errorf("more than %s of text: leave out namespaces or kinds that the node group has nothing to do with", formatSize(m.limits.Bytes))
	}
	if m.total-m.marked > m.limits.Object+2*readAhead {
		return 0, refuseLarge(m.limits)
	}
	n, err := m.in.Read(p[:min(len(p), readAhead)])
	m.total += int64(n)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = explainGzip(err)
	}
	return n, err
}

// markDone says that everything before the offset, in bytes of the unpacked input, has been dealt
// with.
func (m *meter) markDone(offset int64) { m.marked = offset }

func refuseLarge(limits Limits) error {
	return fmt.Errorf("more than %s without the end of an object: that is no object of Kubernetes: write the file with %s", formatSize(limits.Object), Command)
}

// formatSize writes a number of bytes for people.
func formatSize(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	for ; n >= 1<<10 && len(units) > 1; n >>= 10 {
		units = units[1:]
	}
	return fmt.Sprintf("%d %s", n, units[0])
}

// detectJSON tells JSON from YAML by the first character that is no space, and drops a byte order
// mark. It returns an error for input that is no text.
func (m *meter) detectJSON() (bool, error) {
	head, err := m.in.Peek(sniffed)
	if len(head) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if bytes.HasPrefix(head, []byte(utf8Mark)) {
		head = head[len(utf8Mark):]
		_, _ = m.in.Discard(len(utf8Mark)) // it was peeked at
	}
	last := max(0, len(head)-1)
	for last > 0 && !utf8.RuneStart(head[last]) {
		last--
	}
	whole := head
	if !utf8.FullRune(head[last:]) { // it continues behind what was looked at
		whole = head[:last]
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return false, errors.New("not UTF-8 but UTF-16, as PowerShell's > writes it: use | Out-File -Encoding utf8 instead")
	case bytes.IndexByte(head, 0) >= 0, !utf8.Valid(whole):
		return false, fmt.Errorf("not UTF-8, so neither JSON nor YAML: write it with %s", Command)
	default:
		return looksLikeJSON(bytes.TrimSpace(head)), nil
	}
}

// looksLikeJSON tells an object of JSON from one in YAML's flow style, whose keys need no quotes.
func looksLikeJSON(text []byte) bool {
	inner, isObject := bytes.CutPrefix(text, []byte("{"))
	inner = bytes.TrimSpace(inner)
	return bytes.HasPrefix(text, []byte("[")) || isObject && (len(inner) == 0 || inner[0] == '"' || inner[0] == '}')
}
