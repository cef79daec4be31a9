package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/inventory"
)

// readAhead is how many bytes are read at a time.
const readAhead = 64 << 10

// listing is a list to ask for: of a kind, of those objects that a field selector chooses, without
// some of their fields.
type listing struct {
	// client may be that of any API group.
	client   rest.Interface
	kind     *inventory.Kind
	selector string
	drop     prunedFields
}

// read hands every object of the list to keep, as the API server's watch cache has them: pages
// would be read from etcd, each object decoded again. Each is decoded here when the one before is
// kept: neither the answer nor its objects are held as a whole, which of 150,000 pods are 600 MB. A
// server that answers in pages nevertheless is asked for all of them.
func (l *listing) read(ctx context.Context, keep func(metav1.Object)) error {
	options := metav1.ListOptions{ResourceVersion: "0", FieldSelector: l.selector}
	for {
		meta, err := l.readPage(ctx, &options, keep)
		if err != nil {
			return fmt.Errorf("listing %s: %w", l.kind.Resource, err)
		}
		if options = (metav1.ListOptions{Continue: meta.Continue, FieldSelector: l.selector}); options.Continue == "" {
			return nil
		}
	}
}

// readPage hands over the objects of one answer, and returns what it says of itself.
func (l *listing) readPage(ctx context.Context, options *metav1.ListOptions, keep func(metav1.Object)) (metav1.ListMeta, error) {
	request := l.client.Get().AbsPath(l.kind.Path()).Resource(l.kind.Resource).VersionedParams(options, scheme.ParameterCodec)
	body, err := request.UseProtobufAsDefault().Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer body.Close()
	in := bufio.NewReaderSize(body, readAhead)
	if start, err := in.Peek(len(protobufPrefix)); err != nil || string(start) != protobufPrefix {
		return l.readJSONPage(in, keep)
	}
	var kept []byte
	return readList(in, func(item []byte) error {
		object := l.kind.New()
		message, ok := object.(interface{ Unmarshal(message []byte) error })
		if !ok {
			return fmt.Errorf("a %T cannot be decoded from protobuf", object)
		}
		kept = l.drop.appendPruned(kept[:0], item)
		if err := message.Unmarshal(kept); err != nil {
			return err
		}
		keep(object)
		return nil
	})
}

// readJSONPage reads the answer of a server that does not know protobuf, as proxies before an API
// server may, or that has none for the kind, as for custom resources.
func (l *listing) readJSONPage(in io.Reader, keep func(metav1.Object)) (metav1.ListMeta, error) {
	var list struct {
		Kind            string `json:"kind"`
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return list.ListMeta, err
	}
	if err := kjson.Unmarshal(text, &list); err != nil {
		return list.ListMeta, err
	}
	if !strings.HasSuffix(list.Kind, "List") {
		return list.ListMeta, fmt.Errorf("a %q in the place of a list", list.Kind)
	}
	for i, item := range list.Items {
		object := l.kind.New()
		if err := kjson.Unmarshal(item, object); err != nil {
			return list.ListMeta, err
		}
		list.Items[i] = nil // one copy of the object is enough
		keep(object)
	}
	return list.ListMeta, nil
}

// protobufPrefix begins what the API server encodes as protobuf (apimachinery's
// runtime/serializer/protobuf).
const protobufPrefix = "k8s\x00"

// readList hands over the bytes of each item of a list, which are good until the next. What follows
// the prefix is a runtime.Unknown, whose field raw is the list (apimachinery's
// runtime/generated.proto); metadata is every list's field 1, and items are its field 2.
func readList(in *bufio.Reader, keep func(item []byte) error) (meta metav1.ListMeta, err error) {
	const raw, metadata, items = 2, 1, 2
	if _, err := in.Discard(len(protobufPrefix)); err != nil {
		return meta, err
	}
	var value []byte
	inList := func(in *bufio.Reader, number uint64, size int) error {
		value = slices.Grow(value[:0], size)[:size]
		if _, err := io.ReadFull(in, value); err != nil {
			return err
		}
		switch number {
		case metadata:
			return meta.Unmarshal(value)
		case items:
			return keep(value)
		default:
			return nil
		}
	}
	found := false
	err = visitFields(in, func(in *bufio.Reader, number uint64, size int) error {
		if number != raw {
			_, err := in.Discard(size)
			return err
		}
		found = true
		rest := &io.LimitedReader{R: in, N: int64(size)}
		if err := visitFields(bufio.NewReaderSize(rest, readAhead), inList); err != nil || rest.N == 0 {
			return err
		}
		return io.ErrUnexpectedEOF
	})
	if err == nil && !found {
		err = io.ErrUnexpectedEOF
	}
	return meta, err
}

// visitFields visits the fields of a message that continues to the end of in. All fields are bytes
// or messages: of such a size, to be read by visit.
func visitFields(in *bufio.Reader, visit func(in *bufio.Reader, number uint64, size int) error) error {
	const typeBits, bytesType = 3, 2
	for {
		tag, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) { // in front of a field
			return nil
		}
		if err != nil {
			return err
		}
		size, err := binary.ReadUvarint(in)
		switch {
		case err != nil:
			return unexpectedEOF(err)
		case tag&(1<<typeBits-1) != bytesType || size > math.MaxInt32:
			return fmt.Errorf("field %d of type %d and size %d in a list", tag>>typeBits, tag&(1<<typeBits-1), size)
		}
		if err := visit(in, tag>>typeBits, int(size)); err != nil {
			return unexpectedEOF(err)
		}
	}
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
