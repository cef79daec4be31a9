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

// open unpacks the input if it is packed. It returns an error for input that is empty, no gzip
// after all, or packed twice.
func open(r io.Reader, limits Limits) (*meter, error) {
	in := bufio.NewReaderSize(r, readAhead)
	if magic(in) != gzipMagic {
		return &meter{in: in, limits: limits}, nil
	}
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return nil, unpacking(err)
	}
	in = bufio.NewReaderSize(unpacked, readAhead)
	if magic(in) == gzipMagic {
		return nil, errors.New("gzip inside gzip: unpack it with gunzip first")
	}
	return &meter{in: in, limits: limits}, nil
}

func magic(in *bufio.Reader) string {
	head, _ := in.Peek(len(gzipMagic)) // an error shows again when it is read
	return string(head)
}

func unpacking(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("gzip data ends too early: the file was cut short: write it again with %s | gzip", Command)
	}
	return fmt.Errorf("unpacking: %w: write it again with %s | gzip", err, Command)
}

// Read implements io.Reader. It takes in little at a time, so that a mark is never far behind.
func (m *meter) Read(p []byte) (int, error) {
	if m.total > m.limits.Bytes {
		return 0, fmt.Errorf("more than %s of text: leave out namespaces or kinds that the node group has nothing to do with", size(m.limits.Bytes))
	}
	if m.total-m.marked > m.limits.Object+2*readAhead {
		return 0, tooLarge(m.limits)
	}
	n, err := m.in.Read(p[:min(len(p), readAhead)])
	m.total += int64(n)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = unpacking(err)
	}
	return n, err
}

// markHere is mark for everything that was read.
func (m *meter) markHere() { m.marked = m.total }

// mark says that everything before the offset, in bytes of the unpacked input, has been dealt with.
func (m *meter) mark(offset int64) { m.marked = offset }

func tooLarge(limits Limits) error {
	return fmt.Errorf("more than %s without the end of an object: that is no object of Kubernetes: write the file with %s", size(limits.Object), Command)
}

// size writes a number of bytes for people.
func size(n int64) string {
	for _, unit := range []struct {
		name string
		n    int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.n {
			return fmt.Sprintf("%d %s", n/unit.n, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

type format int

const (
	formatYAML format = iota
	formatJSON
)

// format tells JSON from YAML by the first character that is no space, and drops a byte order mark.
// It returns an error for input that is empty or no text.
func (m *meter) format() (format, error) {
	head, err := m.in.Peek(sniffed)
	if len(head) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return formatYAML, err
	}
	if bytes.HasPrefix(head, []byte(utf8Mark)) {
		head = head[len(utf8Mark):]
		_, _ = m.in.Discard(len(utf8Mark)) // it was peeked at
	}
	text := bytes.TrimSpace(head)
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return formatYAML, errors.New("not UTF-8 but UTF-16, as PowerShell's > writes it: use | Out-File -Encoding utf8 instead")
	case bytes.IndexByte(head, 0) >= 0, !utf8.Valid(head[:len(head)-torn(head)]):
		return formatYAML, fmt.Errorf("not UTF-8, so neither JSON nor YAML: write it with %s", Command)
	case bytes.HasPrefix(text, []byte("[")), looksLikeJSON(text):
		return formatJSON, nil
	default:
		return formatYAML, nil
	}
}

// looksLikeJSON tells an object of JSON from one in YAML's flow style, whose keys need no quotes.
func looksLikeJSON(text []byte) bool {
	inner, ok := bytes.CutPrefix(text, []byte("{"))
	inner = bytes.TrimSpace(inner)
	return ok && (len(inner) == 0 || inner[0] == '"' || inner[0] == '}')
}

// torn is how many bytes at the end may belong to a character that goes on behind it.
func torn(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
