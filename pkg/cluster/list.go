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

// readBufferSize is the size of the read buffer in bytes.
const readBufferSize = 64 << 10

// listing is a list request: for the objects of a kind that a field selector matches, without some
// of their fields.
type listing struct {
	// client may be the client of any API group.
	client   rest.Interface
	kind     *inventory.Kind
	selector string
	drop     prunedFields
}

// read calls keep with every object of the list.
//
// It sets no page size, so the API server answers from its watch cache. For pages the server would read etcd and decode
// each object again. If a server answers in pages anyway, read requests all of them.
//
// read decodes an object only after it has passed the previous one to keep. So neither the whole answer nor all decoded
// objects are in memory. For 150,000 pods they would take 600 MB.
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

// readPage calls keep with the objects of one answer, and returns the list's metadata.
func (l *listing) readPage(ctx context.Context, options *metav1.ListOptions, keep func(metav1.Object)) (metav1.ListMeta, error) {
	request := l.client.Get().AbsPath(l.kind.Path()).Resource(l.kind.Resource).VersionedParams(options, scheme.ParameterCodec)
	body, err := request.UseProtobufAsDefault().Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer body.Close()
	in := bufio.NewReaderSize(body, readBufferSize)
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

// readJSONPage reads a JSON answer. Proxies in front of an API server may not support protobuf, and
// custom resources have none.
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
		list.Items[i] = nil // release this copy of the object
		keep(object)
	}
	return list.ListMeta, nil
}

// protobufPrefix is the beginning of the API server's protobuf answers (apimachinery's
// runtime/serializer/protobuf).
const protobufPrefix = "k8s\x00"

// readList calls keep with the bytes of each item of a list. The bytes are valid until the next
// call. After the prefix comes a runtime.Unknown, whose field raw is the list (apimachinery's
// runtime/generated.proto). In every list field 1 is the metadata and field 2 an item.
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
		if err := visitFields(bufio.NewReaderSize(rest, readBufferSize), inList); err != nil || rest.N == 0 {
			return err
		}
		return io.ErrUnexpectedEOF
	})
	if err == nil && !found {
		err = io.ErrUnexpectedEOF
	}
	return meta, err
}

// visitFields calls visit for each field of a message that fills the rest of in. All fields must be
// bytes or messages. visit reads size bytes.
func visitFields(in *bufio.Reader, visit func(in *bufio.Reader, number uint64, size int) error) error {
	const typeBits, bytesType = 3, 2
	for {
		tag, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) { // the message ends before a field
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
