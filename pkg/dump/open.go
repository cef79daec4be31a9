package dump

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

const (
	gzipMagic = "\x1f\x8b"
	utf8Mark  = "\xef\xbb\xbf"
	// sniffed is how many bytes are read to detect the format.
	sniffed = 512
)

// openInput unpacks the input if it is packed. It returns an error if the input is not valid gzip,
// or packed twice.
func openInput(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReader(r)
	if peekMagic(in) != gzipMagic {
		return in, nil
	}
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		return nil, explainGzip(err)
	}
	in = bufio.NewReader(unpacker{unpacked})
	if peekMagic(in) == gzipMagic {
		return nil, errors.New("gzip inside gzip: unpack it with gunzip first")
	}
	return in, nil
}

func peekMagic(in *bufio.Reader) string {
	head, _ := in.Peek(len(gzipMagic)) // reading returns the same error again
	return string(head)
}

// unpacker explains the errors of gzip.
type unpacker struct{ gzip io.Reader }

// Read implements io.Reader.
func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.gzip.Read(p)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = explainGzip(err)
	}
	return n, err
}

func explainGzip(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("the gzip data ends too early: write the file again with %s | gzip", Command())
	}
	return fmt.Errorf("unpacking: %w: write it again with %s | gzip", err, Command())
}

// bounded is a reader with a maximum size.
type bounded struct {
	in   io.Reader
	left int64
	// tooLarge is the error for larger input.
	tooLarge error
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge
	}
	n, err := b.in.Read(p)
	b.left -= int64(n)
	return n, err
}

// formatSize formats a number of bytes for people.
func formatSize(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	for ; n >= 1<<10 && len(units) > 1; n >>= 10 {
		units = units[1:]
	}
	return fmt.Sprintf("%d %s", n, units[0])
}

// detectJSON reports whether the input is JSON rather than YAML, by its first characters after
// spaces. It drops a byte order mark. It returns an error if the input is not text.
func detectJSON(in *bufio.Reader) (bool, error) {
	head, err := in.Peek(sniffed)
	if len(head) == 0 && err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if bytes.HasPrefix(head, []byte(utf8Mark)) {
		head = head[len(utf8Mark):]
		_, _ = in.Discard(len(utf8Mark)) // cannot fail, since these bytes were peeked
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return false, errors.New("not UTF-8 but UTF-16, as PowerShell's > writes it: use | Out-File -Encoding utf8 instead")
	case bytes.IndexByte(head, 0) >= 0:
		return false, fmt.Errorf("not UTF-8, so neither JSON nor YAML: write it with %s", Command())
	default:
		return looksLikeJSON(bytes.TrimSpace(head)), nil
	}
}

// looksLikeJSON reports whether an object is JSON rather than YAML's flow style, whose keys need no
// quotes.
func looksLikeJSON(text []byte) bool {
	inner, isObject := bytes.CutPrefix(text, []byte("{"))
	inner = bytes.TrimSpace(inner)
	return bytes.HasPrefix(text, []byte("[")) || isObject && (len(inner) == 0 || inner[0] == '"' || inner[0] == '}')
}
